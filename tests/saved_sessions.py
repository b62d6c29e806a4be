"""Sessions that are saved at one moment and go on from there: what tests of resumes do by hand."""

from holdfast import ClientSession
from holdfast.client.journal import frame
from holdfast.testing import MemoryStorage


def storage_of(state: bytes | None) -> MemoryStorage:
    """A storage in which a session was saved in this state, or none."""
    return MemoryStorage(frame(state) if state is not None else b"")


async def suspended(session: ClientSession) -> bytes:
    """Suspend a session; the state that it is in then."""
    await session.suspend()
    return session.protocol.save()
