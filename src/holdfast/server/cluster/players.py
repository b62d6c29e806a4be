"""What other nodes have of a player: sessions, seats and reservations. Asked when it is needed, and not kept.

What many ask in one moment goes to each node in one question.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.cluster.questions import Replies
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.shared import PlayerHere, PlayersAsked, SeatHere, SessionHere, SignInHere
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Clock
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.quick_join import is_own
from holdfast.server.sessions import SessionLifecycle

_PLAYERS = "players_here"
# Questions of so long a moment are asked together.
_TOGETHER_S = 0.002
_TOGETHER_MAX = 200


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What the other nodes have of a player."""

    by_life: dict[str, PlayerHere]
    missing: list[str]
    """The lives of nodes that may have something, and do not answer."""

    @property
    def seats(self) -> list[SeatHere]:
        """Of all other nodes, the oldest room first."""
        seats = (seat for here in self.by_life.values() for seat in here.seats)
        return sorted(seats, key=lambda seat: (seat.room.created_at, seat.room.id))


@dataclass(slots=True)
class _Together:
    """What is asked together."""

    has_seats: bool = False
    players: dict[str, None] = field(default_factory=dict)
    answer: "asyncio.Task[Replies[dict[str, PlayerHere]]] | None" = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)


class Players:
    """Asks other nodes about players, and answers them."""

    def __init__(self, node: ClusterNode, clock: Clock, rooms: Directory, lifecycle: SessionLifecycle) -> None:
        self._node = node
        self._clock = clock
        self._rooms = rooms
        self._lifecycle = lifecycle
        self._round: _Together | None = None
        self._asking: set[asyncio.Task[Replies[dict[str, PlayerHere]]]] = set()
        self.signing_in: Callable[[str], list[SignInHere]] = lambda _: []
        """The sign-ins of a player that are being decided here."""
        node.questions.answer(_PLAYERS, PlayersAsked, self._here)

    def stop(self) -> None:
        for task in self._asking:
            task.cancel()

    async def elsewhere(self, player_id: str, *, seats: bool = False) -> Elsewhere:
        """What the other nodes have of a player; `seats`: also where they have a seat or a reservation."""
        if not any(self._node.may_live(life) for life in self._node.watch.membership.members):
            return Elsewhere({}, [])
        asked = self._round
        if asked is None or len(asked.players) >= _TOGETHER_MAX:
            asked = self._round = _Together()
            self._clock.loop.call_later(_TOGETHER_S, self._ask, asked)
        asked.players[player_id] = None
        asked.has_seats = asked.has_seats or seats
        await asked.asked.wait()
        assert asked.answer is not None
        replies = await asyncio.shield(asked.answer)
        found = {life: here[player_id] for life, here in replies.by_life.items() if player_id in here}
        return Elsewhere(found, replies.missing)

    def _ask(self, asked: _Together) -> None:
        if self._round is asked:
            self._round = None
        question = PlayersAsked(list(asked.players), asked.has_seats)
        asked.answer = self._clock.loop.create_task(
            self._node.questions.ask_all(_PLAYERS, question, dict[str, PlayerHere])
        )
        self._asking.add(asked.answer)
        asked.answer.add_done_callback(self._asking.discard)
        asked.asked.set()

    def _here(self, asked: PlayersAsked) -> dict[str, PlayerHere]:
        return {
            player_id: here
            for player_id in asked.players
            if (here := self._of(player_id, seats=asked.seats)) != _NOTHING
        }

    def _of(self, player_id: str, *, seats: bool) -> PlayerHere:
        sessions = [self.describe(each) for each in self._lifecycle.registry.of_player(player_id) if each.codec]
        return PlayerHere(sessions, self.signing_in(player_id), self._seats(PlayerId(player_id)) if seats else [])

    def describe(self, session: Session) -> SessionHere:
        """A session of this node, for the others."""
        now = self._clock.now()
        away_s = now - session.dropped_at if session.dropped_at is not None else 0.0
        age_s = self._clock.wall_clock() - session.signed_in_at
        return SessionHere(session.id, session.name, session.dropped_at is None, away_s, age_s)

    def _seats(self, player_id: PlayerId) -> list[SeatHere]:
        viewer = self._rooms.index.visible_to(player_id)
        return [
            SeatHere(viewer.show(runner), runner.seats.of(player_id) is not None, is_own(runner, player_id))
            for runner in self._rooms.rooms_of(player_id)
        ]


_NOTHING = PlayerHere()
