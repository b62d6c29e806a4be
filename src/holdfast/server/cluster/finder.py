"""Where a session or a room is: every node that lives is asked, and nobody's silence is taken for a no.

What many ask in one moment, as after the death of a node, goes to each node in one question.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from holdfast.cluster.questions import Questions
from holdfast.schemas.cluster import Present, Whereabouts

What = Literal["session", "room", "code"]

_WHERE = "where"
# Questions of so long a moment are asked together.
_TOGETHER_S = 0.002
_TOGETHER_MAX = 500


class Unsure(Exception):
    """A node that may have it does not answer now: ask again."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where something is."""

    life: str
    id: str


@dataclass(slots=True)
class _Round:
    """What is asked together."""

    wanted: dict[tuple[What, str], asyncio.Future[Located | None]] = field(default_factory=dict)


class Finder:
    """Finds what is on other nodes."""

    def __init__(self, questions: Questions, here: Callable[[Whereabouts], Present]) -> None:
        """`here` answers the same question of other nodes."""
        self._questions = questions
        self._loop = asyncio.get_running_loop()
        self._round: _Round | None = None
        self._asking: set[asyncio.Task[None]] = set()
        questions.answer(_WHERE, Whereabouts, here)

    async def find(self, what: What, wanted: str) -> Located | None:
        """The other node that has it; None if no living node has. `Unsure` if one of them does not answer."""
        asked = self._round
        if asked is None or len(asked.wanted) >= _TOGETHER_MAX:
            asked = self._round = _Round()
            self._loop.call_later(_TOGETHER_S, self._ask, asked)
        key = (what, wanted)
        if key not in asked.wanted:
            asked.wanted[key] = self._loop.create_future()
        return await asyncio.shield(asked.wanted[key])

    def stop(self) -> None:
        """Ask no more."""
        for task in self._asking:
            task.cancel()

    def _ask(self, asked: _Round) -> None:
        if self._round is asked:
            self._round = None
        task = self._loop.create_task(self._answered(asked))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answered(self, asked: _Round) -> None:
        of_kind: dict[What, list[str]] = {"session": [], "room": [], "code": []}
        for what, wanted in asked.wanted:
            of_kind[what].append(wanted)
        question = Whereabouts(of_kind["session"], of_kind["room"], of_kind["code"])
        try:
            replies = await self._questions.ask_all(_WHERE, question, Present)
        except BaseException:
            for future in asked.wanted.values():
                future.cancel()
            raise
        found: dict[tuple[What, str], Located] = {}
        # A session whose connection has not come is only there if no other node has it.
        for life, present in replies.by_life.items():
            found |= {("session", each): Located(life, each) for each in present.expected}
        for life, present in replies.by_life.items():
            sessions = set(present.sessions).difference(present.expected)
            found |= {("session", each): Located(life, each) for each in sessions}
            found |= {("room", each): Located(life, each) for each in present.rooms}
            found |= {("code", code): Located(life, room_id) for code, room_id in present.codes.items()}
        for key, future in asked.wanted.items():
            if future.done():
                continue
            if key not in found and replies.missing:
                future.set_exception(Unsure)
                future.exception()  # whoever asked may have gone
            else:
                future.set_result(found.get(key))
