"""How many sessions a player has, counted on all nodes: other sessions end for a new one, or it is refused.

While a sign-in is decided, the other nodes can ask for it: of two at once, at least one hears of the other, and both
agree which of them comes first.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from holdfast.core.errors import Refused, Throttled
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.core.tokens import printable
from holdfast.schemas.shared import EndSessions, SessionHere, SignInHere
from holdfast.server.cluster.asking import Asking, Gone
from holdfast.server.cluster.players import Players
from holdfast.server.sessions import SessionLifecycle

_END = "end_sessions"
_ID_BYTES = 9


class SharedSignIns:
    """Decides about sign-ins with the other nodes."""

    def __init__(
        self, asking: Asking, players: Players, limits: Limits, random: Random, lifecycle: SessionLifecycle
    ) -> None:
        self._asking = asking
        self._players = players
        self._limits = limits
        self._random = random
        self._lifecycle = lifecycle
        self._deciding: dict[str, dict[str, None]] = {}
        """The sign-ins that are being decided here, by player."""
        players.signing_in = lambda player_id: [SignInHere(each) for each in self._deciding.get(player_id, ())]
        asking.answer(_END, EndSessions, self._end)

    @asynccontextmanager
    async def space(self, player_id: str, most: int) -> AsyncIterator[tuple[bool, str]]:
        """Whether a player may have one more session, of `most`, and the name that they have elsewhere.

        The session must begin within the context: until then the sign-in counts instead of it.
        """
        sign_in = printable(self._random.randbytes(_ID_BYTES))
        self._deciding.setdefault(player_id, {})[sign_in] = None
        try:
            yield await self._decide(player_id, sign_in, most)
        finally:
            del self._deciding[player_id][sign_in]
            if not self._deciding[player_id]:
                del self._deciding[player_id]

    async def _decide(self, player_id: str, sign_in: str, most: int) -> tuple[bool, str]:
        elsewhere = await self._players.elsewhere(player_id)
        sessions = [(life, each) for life, here in elsewhere.by_life.items() for each in here.sessions]
        rivals = {each.id for here in elsewhere.by_life.values() for each in here.signing_in}
        rivals |= self._deciding[player_id].keys() - {sign_in}
        newest = min((each for _, each in sessions), key=lambda each: each.age_s, default=None)
        name = newest.name if newest is not None else ""
        here = [each for each in self._lifecycle.registry.of_player(player_id) if each.codec is not None]
        known = len(sessions) + len(here)
        before = sum(rival < sign_in for rival in rivals)
        if self._limits.sessions_policy == "refuse":
            return known + before < most, name
        # All rivals that come after this one make space for themselves, too.
        excess = known + len(rivals) + 1 - most
        if excess > known + before:
            return False, name
        in_order = sorted([*sessions, *(("", self._players.describe(each)) for each in here)], key=_ends_first)
        await self._end_all(in_order[: max(0, excess)])
        return True, name

    async def _end_all(self, victims: list[tuple[str, SessionHere]]) -> None:
        self._end(EndSessions([each.id for life, each in victims if not life]))
        lives = {life: [each.id for at, each in victims if at == life] for life, _ in victims if life}
        await asyncio.gather(*(self._end_at(life, EndSessions(ids)) for life, ids in lives.items()))

    async def _end_at(self, life: str, asked: EndSessions) -> None:
        try:
            await self._asking.ask(life, _END, asked, bool, within_s=self._limits.answer_s)
        except (Gone, Throttled, Refused):
            # It hangs or is gone; what it had is counted again with the next sign-in.
            return

    def _end(self, asked: EndSessions) -> bool:
        for session_id in asked.sessions:
            session: Session | None = self._lifecycle.registry.get(session_id)
            if session is not None:
                self._lifecycle.end_session(session, Reason.SUPERSEDED, "this player signed in elsewhere")
        return True


def _ends_first(at: tuple[str, SessionHere]) -> tuple[bool, float, float]:
    """Those who have been away for the longest, then the oldest."""
    _, session = at
    return session.is_connected, -session.away_s, -session.age_s
