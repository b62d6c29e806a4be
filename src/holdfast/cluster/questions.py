"""What nodes ask each other: a question has a name and a body, and goes to one node or to all that live.

A refusal of the other node is raised here as it was raised there. A node that cannot be heard is not the same as one
that says no: whoever asks all of them is told who did not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.cluster.membership import MemberChange, MemberState, dead
from holdfast.cluster.port import Bus, BusError, NobodyThere, NoReply
from holdfast.cluster.watch import MemberWatch
from holdfast.core.errors import Refused, refusal
from holdfast.core.limits import ClusterLimits
from holdfast.logs import get_logger
from holdfast.schemas.cluster import NodeReply, Question

log = get_logger("holdfast.cluster")

T = TypeVar("T")

ASK = "ask"
"""The topic; the life of the node that is asked follows."""
UNKNOWN = "unknown_question"

_encode = msgspec.msgpack.encode
_question = msgspec.msgpack.Decoder(Question)
_reply = msgspec.msgpack.Decoder(NodeReply)

Handler = Callable[[Any], Any | Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Replies(Generic[T]):
    """What all nodes answered."""

    by_life: dict[str, T]
    missing: list[str]
    """The lives of nodes that live, as far as is known, and did not answer."""


class Questions:
    """One node's questions and answers."""

    def __init__(self, bus: Bus, watch: MemberWatch, own_life: str, limits: ClusterLimits) -> None:
        self._bus = bus
        self._watch = watch
        self._own_life = own_life
        self._limits = limits
        self._handlers: dict[str, tuple[msgspec.msgpack.Decoder[Any], Handler]] = {}
        self._gone: dict[str, asyncio.Future[None]] = {}
        """By the life of a node that was asked something: done when it is dead."""
        watch.on_change.append(self._changed)

    async def start(self) -> None:
        """Answer from now on. The bus is open already."""
        await self._bus.answer(f"{ASK}.{self._own_life}", self._asked)

    def answer(self, name: str, kind: type[Any], handler: Handler) -> None:
        """Answer the questions with this name, whose bodies are of this type; `Refused` is a possible answer."""
        if name in self._handlers:
            raise ValueError(f"two parts answer the question {name!r}")
        self._handlers[name] = (msgspec.msgpack.Decoder(kind), handler)

    async def ask(self, life: str, name: str, body: Any, kind: type[T], within_s: float | None = None) -> T:
        """What a node answers: of this type. `Refused`, or a `BusError` if it cannot be heard."""
        question = _encode(Question(name, _encode(body)))
        within_s = self._limits.answer_s if within_s is None else within_s
        try:
            reply = _reply.decode(await self._answer_of(life, question, within_s))
            if reply.body:
                return msgspec.msgpack.decode(reply.body, type=kind)
        except msgspec.MsgspecError as error:
            raise NoReply(f"the answer of the node {life} cannot be read: {error}") from None
        if reply.code == UNKNOWN:
            raise NoReply(f"the node {life} does not know the question {name!r}: it has another version")
        raise refusal(reply.code, reply.message)

    async def _answer_of(self, life: str, question: bytes, within_s: float) -> bytes:
        """`NoReply` also if the node dies before it has answered: some questions have much time."""
        if life not in self._watch.membership.members:
            return await self._bus.ask(f"{ASK}.{life}", question, within_s)
        gone = self._gone.setdefault(life, asyncio.get_running_loop().create_future())
        asking = asyncio.ensure_future(self._bus.ask(f"{ASK}.{life}", question, within_s))
        try:
            await asyncio.wait((asking, gone), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise NoReply(f"the node {life} has gone")
        finally:
            asking.cancel()

    def _changed(self, change: MemberChange) -> None:
        if dead([change]) and (gone := self._gone.pop(change.life, None)) is not None:
            gone.set_result(None)

    async def ask_all(self, name: str, body: Any, kind: type[T], within_s: float | None = None) -> Replies[T]:
        """What each of the other nodes answers that may be alive."""
        members = self._watch.membership.members
        lives = [life for life, each in members.items() if each.state in {MemberState.ALIVE, MemberState.SUSPECT}]
        answers = await asyncio.gather(
            *(self.ask(life, name, body, kind, within_s) for life in lives), return_exceptions=True
        )
        found: dict[str, T] = {}
        missing: list[str] = []
        for life, answer in zip(lives, answers, strict=True):
            if isinstance(answer, BusError | Refused):
                # One that has gone meanwhile is not missing.
                if not (isinstance(answer, NobodyThere) and life not in members):
                    missing.append(life)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[life] = answer
        return Replies(found, missing)

    # From the bus

    def _asked(self, payload: bytes) -> bytes | Awaitable[bytes]:
        try:
            question = _question.decode(payload)
            known = self._handlers.get(question.name)
            if known is None:
                return _encode(NodeReply(code=UNKNOWN, message=question.name))
            decoder, handler = known
            answer = handler(decoder.decode(question.body))
        except msgspec.MsgspecError as error:
            log.warning("a question of another node cannot be read", error=str(error))
            return _encode(NodeReply(code="invalid", message=str(error)))
        except Refused as error:
            return _encode(NodeReply(code=error.code, message=str(error)))
        if isawaitable(answer):
            return self._later(answer)
        return _encode(NodeReply(_encode(answer)))

    @staticmethod
    async def _later(answer: Awaitable[Any]) -> bytes:
        try:
            return _encode(NodeReply(_encode(await answer)))
        except Refused as error:
            return _encode(NodeReply(code=error.code, message=str(error)))
