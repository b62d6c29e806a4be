"""The doors of a server: which transports listen where, and by which rules."""

from dataclasses import dataclass

from holdfast.core.codec import CODECS
from holdfast.core.limits import Limits
from holdfast.transports import tcp, websocket
from holdfast.transports.port import Accept, Dialect, Listener, TransportLimits

DIALECTS = tuple(Dialect(codec.name, codec.text) for codec in CODECS.values())
"""What the server speaks, in the order it prefers."""


def transport_limits(limits: Limits) -> TransportLimits:
    """The part of the limits that a transport enforces."""
    return TransportLimits(
        payload_bytes_max=limits.payload_bytes_max,
        handshake_s=limits.hello_s,
        close_s=limits.close_s,
        write_high_bytes=limits.window_bytes_max,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSettings:
    """Where and how the players come in. A port of None stays closed, 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int | None = 7777
    tcp_port: int | None = 7779


class Doors:
    """Opens and closes the listeners of one server."""

    def __init__(self, settings: DoorSettings, limits: Limits) -> None:
        self._settings = settings
        self._limits = transport_limits(limits)
        self._listeners: list[Listener] = []

    async def open(self, accept: Accept) -> dict[str, tuple[str, int]]:
        """Where they are, by transport. A port that is taken is an `OSError` that says so."""
        settings = self._settings
        addresses: dict[str, tuple[str, int]] = {}
        for name, listen, port in (
            ("websocket", websocket.listen, settings.port),
            ("tcp", tcp.listen, settings.tcp_port),
        ):
            if port is not None:
                listener = await listen(accept, host=settings.host, port=port, dialects=DIALECTS, limits=self._limits)
                self._listeners.append(listener)
                addresses[name] = listener.addresses[0]
        return addresses

    async def close(self) -> None:
        """Let nobody in any more."""
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
