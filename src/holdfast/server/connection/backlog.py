"""What was received from a client and not processed yet."""

from collections import deque

from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES
from holdfast.schemas.frames import FromClient


class InputBacklog:
    """What was received from one client and waits to be processed, in order."""

    __slots__ = ("_payloads", "end", "frames", "until", "weight_bytes")

    def __init__(self) -> None:
        self._payloads: deque[bytes] = deque()
        self.weight_bytes = 0
        """The total cost of the payloads."""
        self.frames: list[FromClient] = []
        """Decoded frames left from the previous payload."""
        self.until = 0.0
        """Nothing is processed before this time."""
        self.end: tuple[int, str] | None = None
        """How the link ended meanwhile."""

    def __bool__(self) -> bool:
        return bool(self._payloads or self.frames)

    def add(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self.weight_bytes += len(payload) + PAYLOAD_OVERHEAD_BYTES

    def pop(self) -> bytes | None:
        """The next payload."""
        if not self._payloads:
            return None
        payload = self._payloads.popleft()
        self.weight_bytes -= len(payload) + PAYLOAD_OVERHEAD_BYTES
        return payload

    def clear(self) -> None:
        """Discard everything."""
        self._payloads.clear()
        self.weight_bytes = 0
        self.frames = []
