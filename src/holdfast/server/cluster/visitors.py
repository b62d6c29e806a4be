"""Players with something here that ends with their last session, and whose session is on another node: a reserved
seat, a place on a waitlist.

    a request comes from another node → its player is there → that node says when they are there no more → all nodes are
    asked → one has them: it says so later; none has: what they had here ends

A player who is being looked for counts as present.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.cluster.membership import MemberChange, dead
from holdfast.core.errors import Refused
from holdfast.core.limits import Limits
from holdfast.core.session import Session
from holdfast.schemas.shared import PlayersGone, PlayersLooked
from holdfast.server.cluster.asking import Asking, Gone
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.presence import Presence
from holdfast.server.sessions import SessionLifecycle

_LOOK, _GONE = "look_for_players", "players_gone"
# Those who are looked for together.
_AT_ONCE = 200


class Visitors:
    """Knows of players on other nodes as long as something here depends on them."""

    def __init__(
        self,
        node: ClusterNode,
        asking: Asking,
        limits: Limits,
        *,
        lifecycle: SessionLifecycle,
        presence: Presence,
        is_interested: Callable[[str], bool],
        grace_s: float,
    ) -> None:
        """`is_interested` says whether something here ends with a player's last session; sessions of a dead node may be
        back within `grace_s`."""
        self._node = node
        self._asking = asking
        self._limits = limits
        self._sessions = lifecycle.registry
        self._presence = presence
        self._is_interested = is_interested
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._at: dict[str, str] = {}
        """By player, the life of a node on which they have a session; "" while they are looked for."""
        self._watchers: dict[str, set[str]] = {}
        """By player of this node, the nodes that are told when they are here no more."""
        self._wanted: dict[str, None] = {}
        self._looking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_stopped = False
        presence.is_elsewhere = self._at.__contains__
        presence.look = self.look
        lifecycle.on_release.append(self._left)
        lifecycle.on_end.append(lambda session, *_: self._left(session))
        node.watch.on_change.append(self._member_changed)
        asking.answer(_LOOK, PlayersLooked, self._looked)
        asking.answer(_GONE, PlayersGone, self._told_gone)

    def stop(self) -> None:
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        for task in (*self._tasks, *([self._looking] if self._looking is not None else ())):
            task.cancel()

    # Players of other nodes

    def came(self, player_id: str, life: str) -> None:
        """A request of a player has come from this node, which says when they are there no more."""
        self._at[player_id] = life

    def settled(self, player_id: str, life: str) -> None:
        """Their request is carried out: they are remembered only if something here depends on them now."""
        if self._at.get(player_id) == life and not self._is_interested(player_id):
            del self._at[player_id]

    def look(self, player_id: str) -> None:
        """Ask all nodes for a player: nothing of theirs ends before all of them have answered."""
        if self._is_stopped:
            return
        self._at[player_id] = ""
        self._wanted[player_id] = None
        if self._looking is None:
            self._looking = self._loop.create_task(self._look_for_all())

    async def _look_for_all(self) -> None:
        try:
            while self._wanted:
                players = list(self._wanted)[:_AT_ONCE]
                for player_id in players:
                    del self._wanted[player_id]
                asked = PlayersLooked(self._node.life, players)
                replies = await self._node.questions.ask_all(_LOOK, asked, list[str])
                found = {player_id: life for life, there in replies.by_life.items() for player_id in there}
                for player_id in players:
                    self._has_looked(player_id, found.get(player_id, ""), is_sure=not replies.missing)
                if replies.missing:
                    await asyncio.sleep(self._limits.suspect_s)
        finally:
            self._looking = None

    def _has_looked(self, player_id: str, life: str, *, is_sure: bool) -> None:
        if self._at.get(player_id) != "" or player_id in self._wanted:
            # They came, or left again, meanwhile.
            return
        if life:
            self._at[player_id] = life
        elif is_sure or self._sessions.of_player(player_id) or not self._is_interested(player_id):
            del self._at[player_id]
            if not self._sessions.of_player(player_id):
                for gone in self._presence.on_gone:
                    gone(player_id)
        else:
            self._wanted[player_id] = None

    def _told_gone(self, told: PlayersGone) -> bool:
        for player_id in told.players:
            if self._at.get(player_id) != told.life:
                continue
            if self._is_interested(player_id):
                self.look(player_id)
            else:
                del self._at[player_id]
        return True

    def _member_changed(self, change: MemberChange) -> None:
        if not dead([change]):
            return
        life = change.life
        if any(at == life for at in self._at.values()) and not self._is_stopped:
            # Another node may take their sessions over, or they sign in again.
            self._timers[life] = self._loop.call_later(self._grace_s, self._look_again, life)

    def _look_again(self, life: str) -> None:
        self._timers.pop(life, None)
        for player_id in [each for each, at in self._at.items() if at == life]:
            self.look(player_id)

    # Players of this node

    def watched(self, player_id: str, life: str) -> None:
        """Tell this node when the player is here no more."""
        if life != self._node.life:
            self._watchers.setdefault(player_id, set()).add(life)

    def _looked(self, asked: PlayersLooked) -> list[str]:
        here = [player_id for player_id in asked.players if self._sessions.of_player(player_id)]
        for player_id in here:
            self.watched(player_id, asked.life)
        return here

    def _left(self, session: Session) -> None:
        """A session has ended here, or is on another node."""
        player_id = session.player_id
        if self._is_stopped or self._sessions.of_player(player_id):
            return
        for life in self._watchers.pop(player_id, ()):
            self._later(self._tell_gone(life, player_id))
        if self._is_interested(player_id):
            self._presence.check(player_id)

    async def _tell_gone(self, life: str, player_id: str) -> None:
        told = PlayersGone(self._node.life, [player_id])
        try:
            await self._asking.ask(life, _GONE, told, bool, within_s=self._grace_s)
        except (Gone, Refused):
            # It hears of a dead node by itself; what it keeps for nobody expires.
            return

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
