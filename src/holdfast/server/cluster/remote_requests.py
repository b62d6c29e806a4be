"""Requests about rooms of other nodes that leave the session where it is: the node of the room carries them out.

the session's node → finds the node of the room → which does it in the name of the player, once for each id → the
answer, or the refusal, comes back
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core.codec import MSGPACK
from holdfast.core.errors import NotFound, Refused, Throttled, refusal
from holdfast.core.limits import Limits
from holdfast.core.session import PlayerId, Session, SessionId
from holdfast.schemas.player import ReservationInfo, WaitInfo
from holdfast.schemas.requests import REQUESTS, Join
from holdfast.schemas.room import RoomInfo
from holdfast.schemas.shared import RemoteCaller, RemoteDone, RemoteRequest
from holdfast.server.cluster.asking import Asking, Gone, Repeats
from holdfast.server.cluster.visitors import Visitors
from holdfast.server.context import Clock
from holdfast.server.directory.operations import Operation

_REQUEST = "remote_request"
# As with sessions that go to a room: one that moves ends this, and two nodes that are of different minds.
_HOPS_MAX = 4
_ANSWERS: dict[str, Any] = {
    "enter": None,
    "release": None,
    "reserve": ReservationInfo,
    "stop_waiting": None,
    "update": RoomInfo,
    "wait": WaitInfo,
}

_REQUESTS = {**REQUESTS, "enter": Join}

_encode = msgspec.msgpack.encode


class RemoteRequests:
    """Asks other nodes in the name of this node's sessions, and is asked by them."""

    def __init__(
        self,
        asking: Asking,
        visitors: Visitors,
        repeats: Repeats,
        clock: Clock,
        limits: Limits,
        *,
        find: Callable[[NotFound], Awaitable[str]],
    ) -> None:
        """`find` returns the life of the node that has a missing room, or raises."""
        self._asking = asking
        self._visitors = visitors
        self._repeats = repeats
        self._clock = clock
        self._limits = limits
        self._find = find
        self.operations: dict[str, Operation] = {}
        """Those of this node's directory; set where it is composed."""
        asking.answer(_REQUEST, RemoteRequest, self._asked)

    # On the session's node

    async def ask(self, session: Session, request_id: int, operation: str, arguments: Any, missing: NotFound) -> Any:
        """The answer of the node that has the room, or of this one if it has come here by now."""
        for _ in range(_HOPS_MAX):
            life = await self._find(missing)
            if life == self._asking.life:
                return await self.operations[operation](session, arguments)
            caller = RemoteCaller(
                session.id,
                self._asking.life,
                session.player_id,
                session.name,
                session.address,
                sorted(session.roles),
                session.wrong_guesses,
            )
            asked = RemoteRequest(f"{session.id}.{request_id}", caller, operation, _encode(arguments))
            # From now on that node hears when the player is here no more.
            self._visitors.watched(session.player_id, life)
            with suppress(Gone):
                done = await self._asking.ask(life, _REQUEST, asked, RemoteDone, within_s=self._patience_s)
                session.wrong_guesses += done.wrong_guesses
                if done.code:
                    raise refusal(done.code, done.message)
                if not done.is_elsewhere:
                    return msgspec.msgpack.decode(done.body, type=_ANSWERS[operation])
        raise Throttled("this room is moving from node to node; try again in a moment")

    @property
    def _patience_s(self) -> float:
        # A turn of the room, a password that waits for its check, and the store.
        limits = self._limits
        return limits.turn_s + limits.guess_wait_max_s + limits.commit_timeout_s

    # On the room's node

    async def _asked(self, asked: RemoteRequest) -> RemoteDone:
        caller = asked.caller
        return await self._repeats.once(
            f"{_REQUEST} {asked.id}", lambda: self._carry_out(asked), player=caller.player, address=caller.address
        )

    async def _carry_out(self, asked: RemoteRequest) -> RemoteDone:
        caller = asked.caller
        if asked.operation not in _ANSWERS:
            return RemoteDone(code="not_found", message=f"unknown request {asked.operation!r}")
        session = self._session_of(caller)
        guessed = session.wrong_guesses
        self._visitors.came(caller.player, caller.life)
        try:
            arguments = msgspec.msgpack.decode(asked.arguments, type=_REQUESTS[asked.operation])
            result = await self.operations[asked.operation](session, arguments)
        except NotFound as missing:
            if missing.room_id or missing.room_code:
                return RemoteDone(is_elsewhere=True)
            return self._refused(missing, session, guessed)
        except Refused as why:
            return self._refused(why, session, guessed)
        finally:
            self._visitors.settled(caller.player, caller.life)
        return RemoteDone(_encode(result), wrong_guesses=session.wrong_guesses - guessed)

    @staticmethod
    def _refused(why: Refused, session: Session, guessed: int) -> RemoteDone:
        return RemoteDone(code=why.code, message=str(why), wrong_guesses=session.wrong_guesses - guessed)

    def _session_of(self, caller: RemoteCaller) -> Session:
        """What the directory needs to know of the player; no other part hears of it."""
        session = Session(
            SessionId(caller.session),
            PlayerId(caller.player),
            limits=self._limits,
            now=self._clock.now(),
            grace_s=0.0,
            codec=MSGPACK,
            roles=frozenset(caller.roles),
            name=caller.name,
        )
        session.address = caller.address
        session.wrong_guesses = caller.wrong_guesses
        return session
