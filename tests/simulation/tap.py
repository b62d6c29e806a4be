"""The tap: looks into every payload at the moment that it leaves the server, before anybody can have heard of it.

I6       a message, an acknowledgement, a seat or a token of what is saved with every commit is in the store by then
I1       and the message is, byte for byte, the one that was saved under its number
P8       nothing of what nobody may see is in any payload
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from holdfast.core.codecs import CODECS
from holdfast.core.session import Session
from holdfast.schemas.frames import Ack, BlockFrame, Data, FromServer, Ping, SeatFrame, Welcome
from holdfast.testing import Link, Network
from holdfast.transports.memory import MemoryTransport
from tests.simulation.audit import Auditor
from tests.simulation.checker import Checker
from tests.simulation.options import Options
from tests.simulation.sketch import SEALED

_SEALED = SEALED.encode()


@dataclass(slots=True)
class Told:
    """What the client of one link has been told about itself."""

    session: str
    token: bytes
    generations: dict[int, int] = field(default_factory=dict)
    # The channels of rooms that are saved with every commit.
    gated: set[int] = field(default_factory=set)
    # The session's own channel.
    own: int = 0


class Tap:
    """Knows what is saved from the auditor."""

    def __init__(
        self,
        checker: Checker,
        auditor: Auditor,
        durability: Mapping[str, str],
        is_over: Callable[[str], bool],
        session_of: Callable[[Link, str], Session | None],
    ) -> None:
        """`session_of` finds a session on the server at the other end of a link."""
        self._expect = checker.expect
        self._auditor = auditor
        self._durability = durability
        self._is_over = is_over
        self._session_of = session_of
        self._told: dict[Link, Told] = {}

    def leaving(self, link: Link, frames: list[FromServer]) -> None:
        """The server sends this."""
        for frame in _one_by_one(frames):
            if isinstance(frame, Welcome):
                self._welcome(link, frame)
            told = self._told.get(link)
            if told is None or self._has_ended(told.session):
                # With a session its streams are over: its last words are saved by its being gone.
                continue
            match frame:
                case SeatFrame():
                    self._seat(link, told, frame)
                case Data():
                    if not self._is_farewell(link, told, frame.channel):
                        if not self._is_arriving(link, told, frame.channel):
                            self._data(told, frame)
                        self._ack(told, frame.channel, frame.ack)
                case Ack() | Ping():
                    self._ack(told, frame.channel, frame.ack)
                case _:
                    pass

    def _plays_in_memory(self, link: Link, told: Told) -> bool:
        session = self._session_of(link, told.session)
        return session is not None and session.seat is not None and not session.seat.room.is_saved

    def _is_farewell(self, link: Link, told: Told, channel: int) -> bool:
        """Whether this is of a place that is gone, to a session that is not saved: then it is in no record."""
        session = self._session_of(link, told.session)
        return (
            session is not None
            and self._plays_in_memory(link, told)
            and any(each.number == channel for each in session.closing)
        )

    def _is_arriving(self, link: Link, told: Told, channel: int) -> bool:
        """Whether this is of a place that its room has not heard of, in a session that is not saved: no record has it
        yet, and none needs it, for the session ends with the server."""
        is_recorded = channel == told.own or (told.session, channel) in self._auditor.gated
        return not is_recorded and self._plays_in_memory(link, told)

    def _has_ended(self, session: str) -> bool:
        # One that ended before it was ever saved, by the commit in which it took its seat and lost it, was never there.
        return session in self._auditor.ended or (session not in self._auditor.tokens and self._is_over(session))

    def _welcome(self, link: Link, frame: Welcome) -> None:
        told = self._told[link] = Told(frame.session, hashlib.sha256(frame.token.encode()).digest())
        for info in frame.channels:
            if info.purpose == "session":
                self._own_opened(told, info.channel, info.generation)
                continue
            is_saved = not self._plays_in_memory(link, told)
            self._opened(told, info.channel, info.generation, info.room, info.kind, is_saved=is_saved)
            self._ack(told, info.channel, info.applied)
        if frame.session in self._auditor.tokens:
            self._check_token(told)

    def _own_opened(self, told: Told, channel: int, generation: int) -> None:
        told.own = channel
        told.generations[channel] = generation
        if told.session in self._auditor.tokens:
            is_saved = channel <= self._auditor.opened.get(told.session, 0)
            self._expect("I6", is_saved, f"{told.session} heard of its own channel before it was saved")

    def _seat(self, link: Link, told: Told, frame: SeatFrame) -> None:
        if frame.purpose == "session":
            self._own_opened(told, frame.channel, frame.generation)
            return
        # With its seat in a room in memory, a session is not saved, whatever it watches.
        is_saved = frame.purpose == "seat" or not self._plays_in_memory(link, told)
        self._opened(told, frame.channel, frame.generation, frame.room, frame.kind, is_saved=is_saved)
        if self._durability[frame.kind] != "memory":
            if is_saved:
                self._check_token(told)
        elif frame.purpose == "seat":
            # One that has lost the seat meanwhile may be saved again: it hears so next.
            is_forgotten = told.session not in self._auditor.tokens or not self._plays_in_memory(link, told)
            self._expect("I6", is_forgotten, f"{told.session} heard of {frame.room}, and without it is in the store")

    def _opened(self, told: Told, channel: int, generation: int, room: str, kind: str, *, is_saved: bool) -> None:
        told.generations[channel] = generation
        durability = self._durability.get(kind, "memory")
        if durability != "memory" and is_saved:
            is_told = channel <= self._auditor.opened.get(told.session, 0)
            self._expect("I6", is_told, f"{told.session} heard of its seat in {room} before it was saved")
        if durability == "commit" or (not kind and (told.session, channel) in self._auditor.gated):
            told.gated.add(channel)

    def _check_token(self, told: Told) -> None:
        is_saved = told.token in self._auditor.tokens.get(told.session, ())
        self._expect("I6", is_saved, f"{told.session} was given a token before it was saved")

    def _data(self, told: Told, frame: Data) -> None:
        is_own = frame.channel == told.own and told.session in self._auditor.tokens
        if frame.channel not in told.gated and not is_own:
            return
        said = self._auditor.said.get((told.session, frame.channel, told.generations[frame.channel]), {})
        saved = said.get(frame.seq)
        self._expect("I6", saved is not None, f"message {frame.seq} to {told.session} left before it was saved")
        is_same = saved is None or saved == (frame.type, bytes(frame.body))
        self._expect("I1", is_same, f"message {frame.seq} to {told.session} is {frame}, not {saved}")

    def _ack(self, told: Told, channel: int, ack: int) -> None:
        if channel in told.gated:
            saved = self._auditor.applied.get((told.session, channel), 0)
            self._expect("I6", ack <= saved, f"{told.session} was acknowledged {ack}, and {saved} is saved")


def _one_by_one(frames: list[FromServer]) -> Iterator[FromServer]:
    """The same with each message of a block in a frame of its own."""
    for frame in frames:
        if isinstance(frame, BlockFrame):
            yield from frame.data()
        else:
            yield frame


class TappedNetwork(Network):
    """A network whose servers are listened to."""

    def __init__(self, options: Options, random: Random, checker: Checker) -> None:
        super().__init__(random, latency_s=options.latency_s, jitter_s=options.jitter_s)
        self._checker = checker
        self.tap: Tap | None = None

    def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        """See `Network`."""
        link = self.link(sender.wire)
        if payload and sender is link.end("server"):
            self._check_secrets(payload)
            if self.tap is not None:
                self.tap.leaving(link, CODECS[sender.subprotocol.name].from_server(payload))
        return super().fate(sender, payload)

    def _check_secrets(self, payload: bytes) -> None:
        self._checker.expect("P8", _SEALED not in payload, "what nobody may see has left the server")
