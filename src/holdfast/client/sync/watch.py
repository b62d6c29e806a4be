"""A search that goes on, for programs without an event loop."""

from collections.abc import Mapping
from contextlib import suppress

from holdfast.client import watch as asynchronous
from holdfast.client.background import Background
from holdfast.client.watch import RoomsChanged
from holdfast.core.errors import Expired, SessionEnded
from holdfast.schemas.room import RoomInfo


class RoomWatch:
    """A search that goes on: `with session.watch("arena") as watch:`. Iterate over it, or `poll` it once per frame.

    All rooms that were found come first, then what changes. Whoever reads slowly, or was away, gets all that has
    changed since as one. One thread should read.
    """

    def __init__(self, background: Background, watch: asynchronous.RoomWatch) -> None:
        self._background = background
        self._watch = watch

    @property
    def is_closed(self) -> bool:
        """Whether it was closed by this program."""
        return self._watch.is_closed

    @property
    def rooms(self) -> Mapping[str, RoomInfo]:
        """The rooms by id, as they are now."""
        return dict(self._watch.rooms)

    def receive(self, timeout: float | None = None) -> RoomsChanged:
        """What has changed, as soon as something has; `TimeoutError` after so many seconds in which nothing did."""
        return self._background.run_for(timeout, self._watch.receive, "no change")

    def poll(self) -> RoomsChanged | None:
        """What has changed, if something has; raises like `receive` when there can be no more."""
        return self._background.call(self._watch.poll)

    def close(self) -> None:
        """End the search. `rooms` stays as it was."""
        with suppress(SessionEnded):
            self._background.run(self._watch.close)

    def __enter__(self) -> "RoomWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "RoomWatch":
        return self

    def __next__(self) -> RoomsChanged:
        try:
            return self.receive()
        except Expired:
            if not self.is_closed:
                raise
            raise StopIteration from None

    def __repr__(self) -> str:
        return repr(self._watch)
