"""What a session and its rooms share: requests and their answers, what waits to be written, and who waits for what."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from holdfast.client.channels import Arrived
from holdfast.client.connector import Connector, DialOptions
from holdfast.client.journal import SessionJournal
from holdfast.client.listeners import Drop
from holdfast.client.protocol import RESET, ClientProtocol, Event
from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import HoldfastError, NameNotAllowed, ProtocolError, Reset, SessionEnded, refusal
from holdfast.core.protobuf import typed
from holdfast.core.reasons import Reason
from holdfast.logs import get_logger
from holdfast.schemas.frames import Bye, Reply, RequestProblem
from holdfast.schemas.requests import REQUESTS
from holdfast.transports.port import DialError

log = get_logger("holdfast.client")

T = TypeVar("T")
R = TypeVar("R")

_OPERATIONS = {kind: name for name, kind in REQUESTS.items()}
# For these reasons a session ends only on this side of the wire.
_LIVES_ON = ("unreachable", "suspended", Reason.INTERNAL)
# A disk that was full may have room again.
_SAVE_AGAIN_S = 1.0

Answered = Callable[[Any, HoldfastError | None], None]
"""Hears the answer to a request: its result, or why there is none."""


def arguments_of(request: Struct) -> dict[str, Any]:
    """What a request says beyond its defaults: a server that is older than some of them understands the rest."""
    arguments = {}
    for field in structs.fields(request):
        value = getattr(request, field.name)
        if value != (field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()):
            arguments[field.name] = value
    return arguments


def read(content: Any, kind: type[T], what: str) -> T:
    """Plain data from the server as what it must be; `ProtocolError` if it is something else."""
    try:
        read: T = typed(content, kind)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"the {what} is invalid: {error}") from None
    return read


def _error_of(problem: RequestProblem) -> HoldfastError:
    return Reset(problem.message) if problem.code == RESET else refusal(problem.code, problem.message)


class Exchange:
    """Writes what waits, once per turn of the loop, and tells the session what happens."""

    def __init__(
        self,
        protocol: ClientProtocol,
        options: DialOptions,
        *,
        journal: SessionJournal | None,
        happened: Callable[[Event], None],
        dropped: Callable[[Drop], None],
        waiting: Callable[[Drop], None],
        closed: Callable[[SessionEnded], None],
    ) -> None:
        self.protocol = protocol
        self._journal = journal
        self._limits = options.limits
        self._tell = happened
        self._closed = closed
        self._connector = Connector(
            protocol,
            options,
            keep=self.keep,
            happened=self._happened,
            heard=self._heard,
            drained=self.wake,
            dropped=dropped,
            waiting=waiting,
            ended=self.ended,
        )
        self._answered: dict[int, Answered] = {}
        self._posts: dict[tuple[type[Struct], Hashable], tuple[Struct, Answered]] = {}
        self._end: tuple[str, str, str] | None = None
        self._changed = asyncio.Event()
        self._flush_is_due = False
        self._ack_timer: asyncio.TimerHandle | None = None
        self._is_unsaved = False

    async def open(self) -> None:
        """Connect for the first time: a new session is not retried if there is no answer; a saved one is."""
        try:
            await self._connector.open()
        except BaseException:
            if self._journal is not None:
                self._journal.close()
            raise

    async def close(self, code: int, reason: str, message: str) -> None:
        """End the connection in order, and with it the session on this side of the wire."""
        self.ended(reason, message)
        await self._connector.close(code, reason)

    def say_bye(self) -> None:
        """Write everything, then that the session is to end."""
        self.flush()
        if self.protocol.is_welcome:
            self._connector.send(self.protocol.codec.payload(Bye()))

    def cut(self) -> None:
        self._connector.cut()

    @property
    def is_over(self) -> bool:
        return self._end is not None

    def check(self) -> None:
        """Raise `SessionEnded` if there is nothing to be had any more."""
        if self._end is not None:
            raise SessionEnded(*self._end)

    # What rooms and requests need

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is true; `SessionEnded` if the session ends first."""
        while not holds():
            self.check()
            # `set` wakes all waiters, even if one of them clears it before the others run.
            self._changed.clear()
            await self._changed.wait()

    def changed(self) -> None:
        """Wake all waiters to check their condition again."""
        self._changed.set()

    async def ask(self, request: Struct, kind: type[T]) -> T:
        """Ask the server for something; asked again by itself after a resume, answered once.

        If the caller is cancelled, the server may carry it out all the same.
        """
        return await self.ask_then(request, kind, lambda answer: answer)

    async def ask_then(self, request: Struct, kind: type[T], taken: Callable[[T], R]) -> R:
        """The same; `taken` makes something of the answer before anything that came after it is told."""
        await self.until(lambda: self.protocol.may_request)
        self.check()
        reply: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def answered(result: Any, error: HoldfastError | None) -> None:
            if reply.done():
                return
            if error is not None:
                reply.set_exception(error)
                return
            try:
                reply.set_result(taken(read(result, kind, f"answer to {_OPERATIONS[type(request)]!r}")))
            except HoldfastError as problem:
                reply.set_exception(problem)

        self._send(request, answered)
        return await reply

    def post(self, request: Struct, key: Hashable, answered: Answered = lambda *_: None) -> None:
        """Ask without waiting, ahead of the others; an unsent request of the same type and key is replaced."""
        self._posts.pop((type(request), key), None)
        self._posts[type(request), key] = (request, answered)
        self._send_posts()

    def _send_posts(self) -> None:
        while self._posts and self.protocol.may_request and self._end is None:
            self._send(*self._posts.pop(next(iter(self._posts))))

    def _send(self, request: Struct, answered: Answered) -> None:
        self._answered[self.protocol.request(_OPERATIONS[type(request)], arguments_of(request))] = answered
        self.wake()

    def push(self, channel: int, name: str, body: bytes) -> int:
        """Give a message its number, and store both if the session is saved; if that fails, nothing is sent."""
        if self._journal is not None:
            self._journal.sent(channel, name, body)
        number = self.protocol.push(channel, name, body)
        self.wake()
        return number

    def processed(self, arrived: Arrived) -> None:
        """A message was dealt with: acknowledge it soon."""
        self.protocol.processed(arrived)
        self.wake()

    @property
    def transport_kind(self) -> str:
        """The kind of the connection's transport; empty without one."""
        return self._connector.transport_kind

    @property
    def latest_transport(self) -> str:
        """How unreliable messages are sent now; empty without a connection."""
        return self._connector.latest_transport

    # Writing

    def wake(self) -> None:
        """Write what waits when this turn of the loop ends."""
        if not self._flush_is_due and self._end is None:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self, *, with_acks: bool = False) -> None:
        """Write what waits now, once it is saved."""
        self._flush_is_due = False
        if self._journal is not None and not self._is_saved(self._journal):
            return
        datagram_bytes_max = self._connector.datagram_bytes_max
        datagrams = self.protocol.datagrams(datagram_bytes_max) if datagram_bytes_max else []
        with_latest = not self._connector.is_congested
        for payload in self.protocol.outgoing(with_acks=with_acks, with_latest=with_latest):
            self._connector.send(payload)
        for payload in datagrams:
            self._connector.send_datagram(payload)
        is_ack_owed = self.protocol.is_welcome and self.protocol.channels.owe_ack
        if is_ack_owed and self._ack_timer is None and self._end is None:
            self._ack_timer = asyncio.get_running_loop().call_later(self._limits.client_ack_s, self._flush_acks)

    def _flush_acks(self) -> None:
        self._ack_timer = None
        self.flush(with_acks=True)

    def _is_saved(self, journal: SessionJournal) -> bool:
        """Whether what would be told is stored; if it cannot be, nothing is told, and soon we try again."""
        try:
            journal.keep()
        except Exception as error:  # noqa: BLE001 - a storage may be the program's own, and raise anything
            if not self._is_unsaved:
                log.warning("the session cannot be saved; nothing is sent until it can", error=error)
            self._is_unsaved = True
            if self._ack_timer is None and self._end is None:
                self._ack_timer = asyncio.get_running_loop().call_later(_SAVE_AGAIN_S, self._flush_acks)
            return False
        self._is_unsaved = False
        return True

    # From the connector

    def keep(self) -> None:
        """A hello is about to be written, which tells the server how far we got."""
        try:
            if self._journal is not None:
                self._journal.keep()
        except Exception as error:
            raise DialError(f"the session cannot be saved: {error}") from error

    def _happened(self, event: Event) -> None:
        if not isinstance(event, Reply):
            self._tell(event)
        elif (answered := self._answered.pop(event.id, None)) is not None:
            problem = event.problem
            answered(event.result, _error_of(problem) if problem is not None else None)

    def _heard(self) -> None:
        self._send_posts()
        self.changed()
        self.wake()

    def ended(self, reason: str, message: str, problem: str = "") -> None:
        """The session is over; all waiters are told."""
        if self._end is not None:
            return
        self._end = (reason, message, problem)
        if self._journal is not None:
            # The session may live on without us, and what is saved of it is good.
            # A player whose new name is refused chooses another one, and is still the same guest.
            is_kept = reason in _LIVES_ON or problem == NameNotAllowed.code
            (self._journal.close if is_kept else self._journal.forget)()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        answered, self._answered = self._answered, {}
        for tell in answered.values():
            tell(None, SessionEnded(reason, message, problem))
        self.changed()
        self._closed(SessionEnded(reason, message, problem))
