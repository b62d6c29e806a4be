"""`PlayerStreams`: players whose messages arrive exactly once, over the sockets of any asyncio server."""

import asyncio
import inspect
import secrets
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, ClassVar, assert_never

from holdfast.core.asks import NO_ASK, answer_to, asked_message, unanswerable
from holdfast.core.codec import DECODE_ERRORS, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.errors import Failed, Invalid, NotAllowed, NotFound, Refused
from holdfast.core.handlers import Handler, bounded, handlers_of
from holdfast.core.limits import Limits
from holdfast.core.messages import ASK, Message, MessageRefused, check_message, snake_case
from holdfast.core.reasons import Reason
from holdfast.core.session import SESSION_ID_BYTES
from holdfast.core.tokens import new_id
from holdfast.library.connection import (
    Accepted,
    Left,
    Place,
    Returned,
    SignInAsked,
    StreamConnection,
    TakenOver,
    Unnumbered,
)
from holdfast.library.session import PlayerStream, StreamSession
from holdfast.logs import get_logger
from holdfast.schemas.frames import Auth, Data, Latest, sentence

log = get_logger("holdfast.library")

_GUEST_BYTES = 12

Handled = Callable[[StreamSession, Any, Exception | None], None]
"""Takes what a handler returned, or what it raised."""


class PlayerStreams:
    """Players of a server that has sockets of its own: subclass it, mark handlers with `@on`, call `serve` per socket.

    A player's messages are handled one at a time, in order, each exactly once; those of different players may overlap
    where a handler awaits. Hooks are plain functions; a handler may be `async def`. What is kept is in memory: it ends
    with the process. Clients are those of Holdfast: `session.join_or_create(kind)`, or `session.room` after connecting.
    """

    kind: ClassVar[str]
    """What clients join: the name of the class in snake case, unless it is set."""
    grace_s: float = 30.0
    """How long a dropped player is kept, and what was sent to them."""
    subprotocols: ClassVar[tuple[str, ...]] = tuple(CODECS)
    """The WebSocket subprotocols to offer; `serve` takes the one that was chosen."""

    _holdfast_handlers: ClassVar[dict[str, Handler]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in cls.__dict__:
            cls.kind = snake_case(cls.__name__)
        cls._holdfast_handlers = handlers_of(cls)

    def __init__(self, *, limits: Limits | None = None) -> None:
        self._holdfast_engine = Engine(self, limits or Limits())

    # Hooks

    def authenticate(self, auth: Auth) -> str | Awaitable[str]:
        """Who a new client is: the player's id, or a `Refused`. Not asked if `serve` is told; here, a new guest.

        `auth.credential` is what the client passes as `connect(url, auth=Auth("ticket", "…"))`: check it.
        """
        del auth
        return f"guest-{new_id(secrets.token_bytes(_GUEST_BYTES))}"

    def on_join(self, player: PlayerStream) -> None:
        """A player has come."""

    def on_drop(self, player: PlayerStream) -> None:
        """The player's connection is lost. Messages are kept for them."""

    def on_rejoin(self, player: PlayerStream) -> None:
        """The player has returned in time."""

    def on_resync(self, player: PlayerStream) -> None:
        """The player returns, and messages could not be kept: send the current state. `on_rejoin` follows."""

    def on_leave(self, player: PlayerStream, reason: str) -> None:
        """The player is gone: "bye", "kicked", "grace_ended", "superseded" (signed in again), "stopping" …"""

    # What you call

    async def serve(
        self,
        payloads: AsyncIterable[bytes | str],
        send: Callable[[Any], Awaitable[None]],
        close: Callable[[int, str], Awaitable[None]],
        *,
        subprotocol: str | None,
        player_id: str = "",
    ) -> None:
        """Serve one socket until it is closed: what it receives, how to send on it, and how to close it.

        `player_id` is who is there, if your server has proven it already, as by a cookie. What `payloads` and `send`
        raise when the connection breaks is raised here, too; the player is kept for `grace_s` all the same.
        """
        codec = CODECS.get(subprotocol or "")
        if codec is None:
            offered = ", ".join(self.subprotocols)
            raise Invalid(f"the subprotocol is {subprotocol!r}: accept one of {offered}")
        await self._holdfast_engine.serve(payloads, send, close, codec=codec, player_id=player_id)

    @property
    def players(self) -> tuple[PlayerStream, ...]:
        """All players, connected or not, in the order in which they came."""
        return tuple(session.stream for session in self._holdfast_engine.of_player.values())

    def get(self, player_id: str) -> PlayerStream | None:
        """The player with this id, connected or not."""
        session = self._holdfast_engine.of_player.get(player_id)
        return session.stream if session is not None else None

    def broadcast(self, message: Message, exclude: Iterable[PlayerStream] = ()) -> None:
        """Send to all players but those excluded, encoded once."""
        check_message(message)
        excluded = {player.id for player in exclude}
        bodies: dict[Codec, bytes] = {}
        for session in list(self._holdfast_engine.of_player.values()):
            if session.player_id not in excluded:
                if session.codec not in bodies:
                    bodies[session.codec] = session.body(message)
                session.push(message.wire_name, bodies[session.codec])

    async def stop(self) -> None:
        """End all sessions, and wait for the handlers that are still at work."""
        await self._holdfast_engine.stop()


class Engine:
    """What is behind `PlayerStreams`: the sessions, and the tasks and timers that they need."""

    def __init__(self, game: PlayerStreams, limits: Limits) -> None:
        self._game = game
        self._limits = limits
        self._handlers = bounded(game._holdfast_handlers, limits.nesting_max)  # noqa: SLF001 - its own half
        self._sessions: dict[str, StreamSession] = {}
        self.of_player: dict[str, StreamSession] = {}
        """The session of each player: the newest sign-in ends the one before."""
        self._graces: dict[StreamSession, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._place = Place(
            game.kind, limits, game.grace_s, secrets.token_bytes, self._sessions.get, lambda: len(self._sessions)
        )

    # Sockets

    async def serve(
        self,
        payloads: AsyncIterable[bytes | str],
        send: Callable[[Any], Awaitable[None]],
        close: Callable[[int, str], Awaitable[None]],
        *,
        codec: Codec,
        player_id: str,
    ) -> None:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        connection = StreamConnection(self._place, codec, loop.time(), wake=woken.set, player_id=player_id)
        reading = loop.create_task(self._read(payloads, connection, player_id))
        reading.add_done_callback(lambda _: woken.set())
        try:
            while not reading.done() and connection.closing is None:
                woken.clear()
                await self._write(connection, send)
                if connection.closing is None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(connection.next_at):
                            await woken.wait()
            is_gone = reading.done()
            if not is_gone and not connection.is_stuck:
                await self._write(connection, send)
        except Exception:
            # The client has closed the socket; what it said before, perhaps goodbye, may not have been read yet.
            await asyncio.wait({reading}, timeout=self._limits.close_s)
            raise
        finally:
            self._lost(connection)
            reading.cancel()
            (ended,) = await asyncio.gather(reading, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended
        if connection.closing is not None and not is_gone:
            await close(connection.closing.code, connection.closing.reason)

    async def _write(self, connection: StreamConnection, send: Callable[[Any], Awaitable[None]]) -> None:
        is_text = connection.codec.text
        try:
            for payload in connection.outgoing(asyncio.get_running_loop().time()):
                async with asyncio.timeout(self._limits.silence_s):
                    await send(payload.decode() if is_text else payload)
        except TimeoutError:
            connection.is_stuck = True
            connection.close(Reason.SILENT)

    async def _read(self, payloads: AsyncIterable[bytes | str], connection: StreamConnection, player_id: str) -> None:
        now = asyncio.get_running_loop().time
        async for payload in payloads:
            for event in connection.receive(payload, now()):
                if isinstance(event, SignInAsked):
                    await self._sign_in(connection, event, player_id)
                else:
                    self._happened(event)
            if connection.session is not None:
                # It may have read what its messages waited for.
                self._handle(connection.session)

    def _happened(self, event: TakenOver | Returned | Accepted | Unnumbered | Left) -> None:
        session = event.session
        match event:
            case Accepted():
                self._handle(session)
            case Unnumbered(_, frame):
                if session.is_free and not session.inbox and frame.type != ASK:
                    self._take(session, frame, self._latest_handled)
            case Left():
                session.is_leaving = True
                self._handle(session)
            case TakenOver():
                self._call(self._game.on_drop, session.stream)
            case Returned(_, is_resynced):
                if (grace := self._graces.pop(session, None)) is not None:
                    grace.cancel()
                if is_resynced:
                    self._call(self._game.on_resync, session.stream)
                self._call(self._game.on_rejoin, session.stream)
            case _:
                assert_never(event)

    # Sessions

    async def _sign_in(self, connection: StreamConnection, asked: SignInAsked, player_id: str) -> None:
        try:
            if not player_id:
                answer = self._game.authenticate(asked.auth)
                if inspect.isawaitable(answer):
                    async with asyncio.timeout(self._limits.auth_s):
                        answer = await answer
                player_id = answer
            if not isinstance(player_id, str) or not player_id:  # type: ignore[redundant-expr]  # your code may
                raise TypeError(f"authenticate returned {player_id!r}: return the player's id, or raise Refused")
        except Refused as refusal:
            connection.close(Reason.REFUSED, str(refusal), problem=refusal.code)
        except TimeoutError:
            connection.close(Reason.BUSY, "signing in took too long", retry_after_s=self._limits.hello_s)
        except Exception as error:  # noqa: BLE001 - your code may raise anything; it harms this client alone
            log.error("authenticate failed", error=type(error).__name__)  # noqa: TRY400 - the rest may be a secret
            connection.close(Reason.INTERNAL)
        else:
            self._open(connection, player_id, asked.reset)

    def _open(self, connection: StreamConnection, player_id: str, reset: Reason | None) -> None:
        if connection.closing is not None:
            return
        old = self.of_player.get(player_id)
        if old is not None:
            self._end(old, Reason.SUPERSEDED, "this player signed in elsewhere")
        if len(self._sessions) >= self._limits.sessions_max:
            connection.close(Reason.BUSY, "this server is full", retry_after_s=self._limits.hello_s)
            return
        session_id = new_id(secrets.token_bytes(SESSION_ID_BYTES))
        session = StreamSession(session_id, player_id, codec=connection.codec, limits=self._limits, ends=self._end)
        self._sessions[session_id] = self.of_player[player_id] = session
        connection.welcome(session, reset)
        self._call(self._game.on_join, session.stream)

    def _lost(self, connection: StreamConnection) -> None:
        """A connection has ended: its session waits for the player, unless it has a newer connection."""
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        session.channel.shrink()
        if session.is_leaving:
            return
        self._call(self._game.on_drop, session.stream)
        if not session.is_over:
            loop = asyncio.get_running_loop()
            self._graces[session] = loop.call_later(self._game.grace_s, self._end, session, Reason.GRACE_ENDED, "")

    def _end(self, session: StreamSession, reason: Reason, message: str) -> None:
        if session.is_over:
            return
        session.is_over = True
        if (grace := self._graces.pop(session, None)) is not None:
            grace.cancel()
        del self._sessions[session.id]
        del self.of_player[session.player_id]
        if session.connection is not None:
            session.connection.close(reason, message)
            session.connection = None
        self._call(self._game.on_leave, session.stream, reason)

    async def stop(self) -> None:
        for session in list(self._sessions.values()):
            self._end(session, Reason.STOPPING, "the server is stopping")
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _call(self, hook: Callable[..., None], *args: Any) -> None:
        try:
            hook(*args)
        except Exception:
            # Your code may raise anything; it harms this call alone.
            log.exception("a hook failed", hook=hook.__name__)

    # Messages

    def _handle(self, session: StreamSession) -> None:
        """Handle what waits, in order; where a handler awaits something, it goes on in a task of its own."""
        while session.may_handle:
            self._take(session, session.inbox[0], self._handled)
        if session.is_leaving and not session.inbox:
            self._end(session, Reason.BYE, "")

    def _take(self, session: StreamSession, sent: Data | Latest, handled: Handled) -> None:
        """Handle a message; `handled` takes its result."""
        session.is_handling = True
        try:
            result = self._start(session, sent)
        except Exception as error:  # noqa: BLE001 - as above; the sender is told
            handled(session, None, error)
        except asyncio.CancelledError as cancelled:
            handled(session, None, _of_something_else(cancelled))
        else:
            if inspect.isawaitable(result):
                task = asyncio.get_running_loop().create_task(self._finish(session, result, handled))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                handled(session, result, None)

    def _start(self, session: StreamSession, sent: Data | Latest) -> Any:
        frame: Data | Latest | None = sent
        if isinstance(sent, Data) and sent.type == ASK:
            frame = asked_message(sent, session.codec)
        if frame is None:
            raise NO_ASK
        handler = self._handlers.get(frame.type)
        if handler is None:
            raise NotFound(f"{self._game.kind!r} has no handler for {frame.type!r}")
        try:
            message = handler.decoders[session.codec].decode(frame.body)
        except DECODE_ERRORS as error:
            raise Invalid(f"{frame.type!r} is invalid: {error}") from None
        if handler.role and handler.role not in session.stream.roles:
            raise NotAllowed(f"{frame.type!r} requires the role {handler.role!r}")
        return handler.method(self._game, session.stream, message)

    async def _finish(self, session: StreamSession, waiting: Awaitable[Any], handled: Handled) -> None:
        result: Any = None
        failure: Exception | None = None
        try:
            result = await waiting
        except asyncio.CancelledError as cancelled:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            failure = _of_something_else(cancelled)
        except Exception as error:  # noqa: BLE001 - as above
            failure = error
        handled(session, result, failure)
        self._handle(session)

    def _latest_handled(self, session: StreamSession, _: Any, error: Exception | None) -> None:
        """An unreliable message was handled: its sender hears of nothing."""
        session.is_handling = False
        if error is not None and not isinstance(error, Refused):
            log.error("a handler failed", player=session.player_id, error=error, exc_info=error)

    def _handled(self, session: StreamSession, result: Any, error: Exception | None) -> None:
        """A message was handled: acknowledge it, answer an ask, say what was refused."""
        session.is_handling = False
        frame = session.handled()
        asked = asked_message(frame, session.codec) if frame.type == ASK else None
        name = (asked or frame).type
        if error is None and asked is not None:
            try:
                answer = answer_to(frame.seq, name, result)
                session.push(answer.wire_name, session.body(answer))
            except Exception as failure:  # noqa: BLE001 - an answer that cannot be sent is the handler's failure
                error = unanswerable(name, failure)
        if error is None:
            return
        if isinstance(error, Refused):
            refused = MessageRefused(frame.seq, name, error.code, sentence(str(error)))
        else:
            log.error("a handler failed", message=name, player=session.player_id, error=error, exc_info=error)
            refused = MessageRefused(frame.seq, name, Failed.code, "the handler failed")
        session.push(refused.wire_name, session.body(refused))


def _of_something_else(cancelled: asyncio.CancelledError) -> Exception:
    """The handler awaited something that was cancelled; the handler itself was not. A failure like any other."""
    error = RuntimeError("the handler awaited something that was cancelled")
    error.__cause__ = cancelled
    return error
