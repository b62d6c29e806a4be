"""The packet log: every payload of some sessions or addresses, while somebody wants to see them.

It is switched on and off while the node runs, and ends by itself. Its logger is `holdfast.packets`, so that it can go
to a file of its own; see `packet_text.py` for how secrets are kept out of it.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from holdfast.core.connection import ConnectionState
from holdfast.core.errors import Invalid, NotFound, Throttled
from holdfast.core.ranges import Range, read_address, read_range
from holdfast.core.session import Session, SessionFlags
from holdfast.logs import Block, get_logger
from holdfast.logs.output import PACKETS
from holdfast.observability.journal import tell_left_out
from holdfast.observability.line_limit import LineLimit
from holdfast.observability.message_log import MessageLog, Tap
from holdfast.observability.packet_text import PacketReader
from holdfast.schemas.node import PacketTarget

if TYPE_CHECKING:
    from holdfast.server.connection.connection import LiveConnection
    from holdfast.server.node import Node

log = get_logger(PACKETS)
if not logging.getLogger(PACKETS).level:
    # Who switches it on wants to see it, also where only warnings are logged.
    logging.getLogger(PACKETS).setLevel(logging.INFO)

# No id of a session has one of these, and every address does.
_OF_ADDRESSES = frozenset(".:/")


@dataclass(frozen=True, slots=True)
class _Target:
    """A session or a range of addresses, until its time is up."""

    name: str
    network: Range | None
    ends_at: float
    end: asyncio.TimerHandle


class PacketLog:
    """Who is followed, and the taps on their connections."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._targets: dict[str, _Target] = {}
        self._lines = LineLimit(loop, node.limits.packet_lines_per_s, tell_left_out)
        self.messages = MessageLog(node, loop, self._renew_taps)

    def follow(self, target: str, for_s: float | None = None) -> PacketTarget:
        """Log the packets of a session, an address or a range of addresses; asking again begins a new time."""
        limits = self._node.limits
        seconds = limits.packet_log_s if for_s is None else for_s
        if not 0 < seconds <= limits.packet_log_max_s:
            raise Invalid(f"for_s: packets are logged for {limits.packet_log_max_s:g} s at most; got {seconds:g}")
        name, network = self._read(target)
        self._forget_ended()
        if name not in self._targets and len(self._targets) >= limits.packet_targets_max:
            raise Throttled(f"the packets of {len(self._targets)} are logged already: switch one off first")
        self._drop(name)
        end = self._loop.call_later(seconds, self._over, name)
        self._targets[name] = _Target(name, network, self._node.now() + seconds, end)
        self._mark(name, is_followed=True)
        self._renew_taps()
        log.info("the packet log is on", **_whose(name, network), for_s=seconds)
        return self._info(self._targets[name])

    def leave(self, target: str) -> None:
        """Log them no more."""
        name, _ = _name_of(target)
        if name not in self._targets:
            raise NotFound(f"the packets of {target!r} are not logged")
        self._over(name)

    def targets(self) -> list[PacketTarget]:
        """Who is followed."""
        self._forget_ended()
        return [self._info(target) for target in self._targets.values()]

    def tap(self, connection: "LiveConnection") -> Tap | None:
        """What a connection tells its payloads; None if nobody wants to see them."""
        return self.messages.tap(connection, self._packet_tap(connection))

    def _packet_tap(self, connection: "LiveConnection") -> "PacketTap | None":
        if not self._targets:
            return None
        session = connection.session
        if session is not None and session.id in self._targets:
            # Also one that came back from the store.
            session.flags |= SessionFlags.PACKET_LOGGING
            return PacketTap(self._node, connection, self._lines)
        address = read_address(connection.address)
        if address is not None and any(
            target.network is not None and address in target.network for target in self._targets.values()
        ):
            return PacketTap(self._node, connection, self._lines)
        return None

    def close(self) -> None:
        """The node has stopped."""
        for name in list(self._targets):
            self._drop(name)
        self._lines.close()
        self.messages.close()

    def _read(self, target: str) -> tuple[str, Range | None]:
        name, network = _name_of(target)
        if network is None:
            session = self._node.sessions.get(name)
            if session is None:
                raise NotFound(f"there is no session {name!r}, and it is no address either")
            if session.codec is None:
                raise Invalid("the session of an agent has no packets")
        return name, network

    def _over(self, name: str) -> None:
        target = self._drop(name)
        self._mark(name, is_followed=False)
        self._renew_taps()
        if target is not None:
            log.info("the packet log is off", **_whose(name, target.network))

    def _drop(self, name: str) -> _Target | None:
        target = self._targets.pop(name, None)
        if target is not None:
            target.end.cancel()
        return target

    def _forget_ended(self) -> None:
        for target in list(self._targets.values()):
            if target.network is None and self._session(target.name) is None:
                self._drop(target.name)

    def _session(self, name: str) -> Session | None:
        return self._node.sessions.get(name)

    def _mark(self, name: str, *, is_followed: bool) -> None:
        session = self._session(name)
        if session is not None:
            flag = SessionFlags.PACKET_LOGGING
            session.flags = session.flags | flag if is_followed else session.flags & ~flag

    def _renew_taps(self) -> None:
        for connection in self._node.connections.values():
            connection.tap = self.tap(connection)

    def _info(self, target: _Target) -> PacketTarget:
        (kind,) = _whose(target.name, target.network)
        return PacketTarget(target.name, kind, round(max(0.0, target.ends_at - self._node.now()), 3))


def _whose(name: str, network: Range | None) -> dict[Literal["session", "address"], str]:
    """A target as a field of a line: addresses are known by that name, and can be left out."""
    return {"session" if network is None else "address": name}


def _name_of(target: str) -> tuple[str, Range | None]:
    """The one spelling of a target, and the range that it is unless it is a session."""
    if _OF_ADDRESSES.isdisjoint(target):
        return target, None
    try:
        network = read_range(target)
    except ValueError:
        raise Invalid(f"{target[:64]!r} is no address like 203.0.113.7, and no range like 203.0.113.0/24") from None
    return str(network.network_address if network.num_addresses == 1 else network), network


class PacketTap:
    """Writes down what one connection says and hears. It never raises: a look must not harm what is looked at."""

    __slots__ = ("_connection", "_lines", "_node", "_reader")

    def __init__(self, node: "Node", connection: "LiveConnection", lines: LineLimit) -> None:
        self._node = node
        self._connection = connection
        self._lines = lines
        self._reader = PacketReader(connection.codec, node.limits)

    def received(self, payload: bytes) -> None:
        """From the client."""
        self._write("in", payload)

    def sent(self, payload: bytes) -> None:
        """To the client."""
        self._write("out", payload)

    def _write(self, direction: str, payload: bytes) -> None:
        if not log.isEnabledFor(logging.INFO) or not self._lines.allow(PACKETS):
            return
        connection = self._connection
        try:
            text = self._reader.read(
                payload,
                is_from_client=direction == "in",
                is_stranger=connection.state is ConnectionState.CONNECTING,
            )
            log.info(
                "packet",
                direction=direction,
                session=connection.session.id if connection.session is not None else "",
                connection=connection.id,
                peer=connection.peer,
                length=len(payload),
                frames=Block(text.frames),
                dump=Block(text.dump),
            )
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, and this tap sees no more
            connection.tap = None
            self._node.internal_error("the packet log", error, connection=connection.id)
