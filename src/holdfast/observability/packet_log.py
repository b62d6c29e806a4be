"""The packet log: every payload of some sessions or addresses, while an operator wants to see them.

It is switched on and off while the server runs, and ends automatically. Its logger is `holdfast.packets`, so that it
can go to a separate file; see `packet_text.py` for how secrets are masked.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from holdfast.core.addresses import Range, read_address, read_range
from holdfast.core.codec import Codec
from holdfast.core.connection import Connection, ConnectionState
from holdfast.core.errors import Invalid, NotFound, Throttled
from holdfast.core.limits import Limits
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import Session, SessionFlags
from holdfast.logs import LogRows, get_logger
from holdfast.logs.output import PACKETS
from holdfast.observability.log_lines import LineLimit, log_left_out
from holdfast.observability.packet_text import PacketReader
from holdfast.schemas.node import PacketTarget

log = get_logger(PACKETS)
if not logging.getLogger(PACKETS).level:
    # The lines must be visible even where only warnings are logged.
    logging.getLogger(PACKETS).setLevel(logging.INFO)

# No session id contains one of these, and every address does.
_OF_ADDRESSES = frozenset(".:/")

Direction = Literal["in", "out"]
Sink = Callable[[Direction, bytes], None]
"""Takes the payloads of one connection. It never raises."""


def joined_sinks(*sinks: Sink | None) -> Sink | None:
    """One sink for all who follow a connection; None if nobody does."""
    wanted = [sink for sink in sinks if sink is not None]
    if not wanted:
        return None

    def write(direction: Direction, payload: bytes) -> None:
        for sink in wanted:
            sink(direction, payload)

    return write


@dataclass(frozen=True, slots=True)
class _Target:
    """A session or a range of addresses, until its time is up."""

    name: str
    network: Range | None
    ends_at: float
    end: asyncio.TimerHandle


class PacketLog:
    """The sessions and addresses whose packets are logged."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        now: Callable[[], float],
        limits: Limits,
        sessions: SessionRegistry,
        renew_taps: Callable[[], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        """`renew_taps` is called when other connections are followed than before: each then asks for its `sink`."""
        self._loop = loop
        self._now = now
        self._limits = limits
        self._sessions = sessions
        self._renew_taps = renew_taps
        self._failed = failed
        self._targets: dict[str, _Target] = {}
        self._lines = LineLimit(loop, limits.packet_lines_per_s, log_left_out)

    def follow(self, target: str, for_s: float | None = None) -> PacketTarget:
        """Log the packets of a session, an address or a range of addresses; asking again restarts the time."""
        limits = self._limits
        seconds = limits.packet_log_s if for_s is None else for_s
        if not 0 < seconds <= limits.packet_log_max_s:
            raise Invalid(f"for_s: packets are logged for {limits.packet_log_max_s:g} s at most; got {seconds:g}")
        name, network = _name_of(target)
        if network is None:
            session = self._sessions.get(name)
            if session is None:
                raise NotFound(f"{name!r} is neither a session nor an address")
            if session.codec is None:
                raise Invalid("the session of an agent has no packets")
        self._forget_ended()
        if name not in self._targets and len(self._targets) >= limits.packet_targets_max:
            raise Throttled(f"{len(self._targets)} packet logs are on, which is the limit: switch one off first")
        self._drop(name)
        end = self._loop.call_later(seconds, self._over, name)
        self._targets[name] = _Target(name, network, self._now() + seconds, end)
        self._mark(name, is_followed=True)
        self._renew_taps()
        log.info("the packet log is on", **_whose(name, network), for_s=seconds)
        return self._info(self._targets[name])

    def leave(self, target: str) -> None:
        name, _ = _name_of(target)
        if name not in self._targets:
            raise NotFound(f"the packets of {target!r} are not logged")
        self._over(name)

    def targets(self) -> list[PacketTarget]:
        self._forget_ended()
        return [self._info(target) for target in self._targets.values()]

    def sink(self, connection: Connection, codec: Codec, session: Session | None) -> Sink | None:
        """The sink for the payloads of a connection; None if it is not followed."""
        if not self._targets:
            return None
        if session is not None and session.id in self._targets:
            # Also one that was restored from the store.
            session.flags |= SessionFlags.PACKET_LOGGING
        else:
            address = read_address(connection.address)
            networks = [target.network for target in self._targets.values() if target.network is not None]
            if address is None or not any(address in network for network in networks):
                return None
        session_id = session.id if session is not None else ""
        return _PacketSink(connection, session_id, PacketReader(codec, self._limits), self._lines, self._failed).write

    def close(self) -> None:
        for name in list(self._targets):
            self._drop(name)
        self._lines.close()

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
            if target.network is None and self._sessions.get(target.name) is None:
                self._drop(target.name)

    def _mark(self, name: str, *, is_followed: bool) -> None:
        session = self._sessions.get(name)
        if session is not None:
            flag = SessionFlags.PACKET_LOGGING
            session.flags = session.flags | flag if is_followed else session.flags & ~flag

    def _info(self, target: _Target) -> PacketTarget:
        (kind,) = _whose(target.name, target.network)
        return PacketTarget(target.name, kind, round(max(0.0, target.ends_at - self._now()), 3))


class _PacketSink:
    """Logs the payloads of one connection."""

    __slots__ = ("_connection", "_failed", "_is_broken", "_lines", "_reader", "_session_id")

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        reader: PacketReader,
        lines: LineLimit,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._reader = reader
        self._lines = lines
        self._failed = failed
        self._is_broken = False

    def write(self, direction: Direction, payload: bytes) -> None:
        if self._is_broken or not log.isEnabledFor(logging.INFO) or not self._lines.allow(PACKETS):
            return
        connection = self._connection
        try:
            text = self._reader.read(
                payload,
                is_from_client=direction == "in",
                is_before_sign_in=connection.state is ConnectionState.CONNECTING,
            )
            log.info(
                "packet",
                direction=direction,
                session=self._session_id,
                connection=connection.id,
                peer=connection.peer,
                length=len(payload),
                frames=LogRows(text.frames),
                dump=LogRows(text.dump),
            )
        except Exception as error:  # noqa: BLE001 - our bug: logged once, counted; the connection is not affected
            self._is_broken = True
            self._failed("the packet log", error)


def _whose(name: str, network: Range | None) -> dict[Literal["session", "address"], str]:
    """A target as a field of a line: addresses have a separate field, and can be left out."""
    return {"session" if network is None else "address": name}


def _name_of(target: str) -> tuple[str, Range | None]:
    """The canonical form of a target, and its range unless it is a session."""
    if _OF_ADDRESSES.isdisjoint(target):
        return target, None
    try:
        network = read_range(target)
    except ValueError:
        raise Invalid(
            f"{target[:64]!r} is neither an address like 203.0.113.7 nor a range like 203.0.113.0/24"
        ) from None
    return str(network.network_address if network.num_addresses == 1 else network), network
