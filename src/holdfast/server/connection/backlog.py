"""What a client has said and was not heard yet."""

from collections import deque

from holdfast.core.flood import PAYLOAD_OVERHEAD_BYTES
from holdfast.schemas.frames import FromClient


class InputBacklog:
    """What a client has said and was not heard yet, in order."""

    __slots__ = ("_payloads", "end", "frames", "until", "weight_bytes")

    def __init__(self) -> None:
        self._payloads: deque[bytes] = deque()
        self.weight_bytes = 0
        """Of the payloads, each with what it costs to deal with it."""
        self.frames: list[FromClient] = []
        """What is left of the payload before."""
        self.until = 0.0
        """Not before this."""
        self.end: tuple[int, str] | None = None
        """How its link ended meanwhile."""

    def __bool__(self) -> bool:
        return bool(self._payloads or self.frames)

    def add(self, payload: bytes) -> None:
        """One more."""
        self._payloads.append(payload)
        self.weight_bytes += len(payload) + PAYLOAD_OVERHEAD_BYTES

    def pop(self) -> bytes | None:
        """The next one."""
        if not self._payloads:
            return None
        payload = self._payloads.popleft()
        self.weight_bytes -= len(payload) + PAYLOAD_OVERHEAD_BYTES
        return payload

    def clear(self) -> None:
        """Nobody will hear it any more."""
        self._payloads.clear()
        self.weight_bytes = 0
        self.frames = []
