"""Who lives: the rules, without a clock and without a bus.

    heard a beat ─────────────→ alive ── no beat for `suspect_s`, or nobody answers ──→ suspect
    suspect ── nobody answers for `absent_s`, or no beat for `silent_s` ─→ dead ── a beat ──→ alive
    said bye ─────────────────→ left

A node that is declared dead may live: it was paused, or cut off. That costs a pause and never data, because its rooms
are taken with a condition that refuses its own writes. It is still better to wait than to be wrong, so a node doubts
what it hears, and declares nobody dead for `doubt_s`, when the fault may be its own or the bus's: its link was lost, it
was paused itself, its store does not answer, or two nodes fell silent together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.cluster.rendezvous import next_owner
from holdfast.core.limits import ClusterLimits
from holdfast.core.tables import Table, TableEnum
from holdfast.schemas.beat import Beat


class MemberState(TableEnum):
    """The states of another node, as this one sees it."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    LEFT = "left"


class MemberEvent(TableEnum):
    """What happens to another node."""

    HEARD = "heard"
    MISSED = "missed"
    LOST = "lost"
    SAID_BYE = "said_bye"


_S, _E = MemberState, MemberEvent

MEMBER_TABLE = Table(
    "node",
    _S.ALIVE,
    {
        _S.ALIVE: {_E.HEARD: _S.ALIVE, _E.MISSED: _S.SUSPECT, _E.LOST: _S.DEAD, _E.SAID_BYE: _S.LEFT},
        _S.SUSPECT: {_E.HEARD: _S.ALIVE, _E.LOST: _S.DEAD, _E.SAID_BYE: _S.LEFT},
        _S.DEAD: {_E.HEARD: _S.ALIVE, _E.SAID_BYE: _S.LEFT},
        # A beat that was overtaken by the bye changes nothing.
        _S.LEFT: {},
    },
)


_GONE = frozenset({_S.DEAD, _S.LEFT})


@dataclass(slots=True)
class ClusterMember:
    """Another node."""

    beat: Beat
    """Its last one."""
    heard_at: float
    state: MemberState = MEMBER_TABLE.start
    absent_since: float | None = None
    """Since when nobody answers for it."""
    absent_at: float = 0.0
    """When that was last found."""
    changed_at: float = 0.0
    lives_until: float = 0.0
    """Until then it is known to live, though it is not heard here."""
    clock_ahead_s: float = 0.0
    """How far its wall clock is ahead of this node's."""


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A node has another state."""

    life: str
    before: MemberState | None
    """None for one that was not known."""
    after: MemberState
    why: str


class MemberList:
    """What one node knows of the others."""

    def __init__(self, own_life: str, limits: ClusterLimits, now: float) -> None:
        self._own_life = own_life
        self._limits = limits
        self._members: dict[str, ClusterMember] = {}
        self._advanced_at = now
        # Whoever has just come has not heard the others yet.
        self._doubts_until = now + limits.doubt_s
        self._proven_at: float | None = None
        """When the own link was last known to reach what decides for all."""

    @property
    def members(self) -> Mapping[str, ClusterMember]:
        """The other nodes by their lives, also the dead ones for a while."""
        return self._members

    @property
    def doubts_until(self) -> float:
        """Until then nobody is declared dead."""
        return self._doubts_until

    # What happens

    def heard(self, beat: Beat, now: float, wall_clock: float = 0.0) -> list[MemberChange]:
        """A beat has come. One of a node whose loop hangs counts only as long as a handler may block."""
        changes = self._heard(beat, now)
        member = self._members.get(beat.life)
        if member is not None and member.beat is beat and beat.wall_clock and wall_clock:
            member.clock_ahead_s = beat.wall_clock - wall_clock
        return changes

    def _heard(self, beat: Beat, now: float) -> list[MemberChange]:
        if beat.life == self._own_life:
            return []
        member = self._members.get(beat.life)
        if member is None:
            if len(self._members) >= self._limits.nodes_max:
                return []
            self._members[beat.life] = ClusterMember(beat, now, changed_at=now)
            return [MemberChange(beat.life, None, MemberState.ALIVE, "it has come")]
        if beat.number <= member.beat.number or member.state is MemberState.LEFT:
            return []
        member.beat = beat
        if beat.loop_age_s >= self._limits.hung_s:
            return self._step(beat.life, MemberEvent.LOST, "its event loop hangs", now)
        member.heard_at = now
        member.absent_since = None
        return self._step(beat.life, MemberEvent.HEARD, "it is back", now)

    def said_bye(self, life: str, now: float) -> list[MemberChange]:
        """A node has ended in order."""
        return self._step(life, MemberEvent.SAID_BYE, "it has ended", now)

    def absent(self, life: str, now: float) -> list[MemberChange]:
        """Nobody answered a question to this node."""
        member = self._members.get(life)
        if member is None or member.state not in {MemberState.ALIVE, MemberState.SUSPECT}:
            return []
        if member.absent_since is None:
            member.absent_since = now
        member.absent_at = now
        return self._missed(life, "nobody answers for it", now) + self._judged(life, now)

    def present(self, life: str) -> None:
        """A question to this node was heard, answered or not: it has a link, and may only be slow."""
        if (member := self._members.get(life)) is not None:
            member.absent_since = None

    def vouched(self, life: str, now: float) -> None:
        """Another node hears it."""
        if (member := self._members.get(life)) is not None:
            member.lives_until = max(member.lives_until, now + self._limits.absent_s)

    def wrote(self, life: str, now: float) -> list[MemberChange]:
        """It has saved something that this node had: it lives, and takes this one for dead."""
        member = self._members.get(life)
        if member is None or member.state in {MemberState.ALIVE, MemberState.LEFT}:
            return []
        member.lives_until = now + self._limits.dead_kept_s
        member.absent_since = None
        if member.state is MemberState.SUSPECT:
            return []
        return self._step(life, MemberEvent.HEARD, "it has saved what was here", now)

    def doubt(self, now: float) -> None:
        """The fault may be here: the own link was lost, or the own store did not answer."""
        self._doubts_until = max(self._doubts_until, now + self._limits.doubt_s)

    def proven(self, at: float) -> None:
        """The own link reached what decides for all, at this time or later."""
        self._proven_at = max(self._proven_at or at, at)

    @property
    def has_proof(self) -> bool:
        """Whether that was ever known: a node that has just come knows nobody, and may be cut off."""
        return self._proven_at is not None

    @property
    def is_proven(self) -> bool:
        """Whether that is known since the latest suspicion: before, nobody is declared dead for being silent."""
        suspected = (each.changed_at for each in self._members.values() if each.state is MemberState.SUSPECT)
        return self._proven_at is not None and self._proven_at >= max(suspected, default=self._proven_at)

    def advance(self, now: float) -> list[MemberChange]:
        """Time has passed. To be called at least once for each beat."""
        limits = self._limits
        changes: list[MemberChange] = []
        was_paused = now - self._advanced_at > limits.suspect_s
        self._advanced_at = now
        if was_paused:
            # The beats of the others wait to be read.
            self.doubt(now)
            return changes
        for life, member in list(self._members.items()):
            silent_s = now - member.heard_at
            if member.state is MemberState.ALIVE and silent_s >= limits.suspect_s:
                changes += self._missed(life, "no beat", now)
        for life, member in list(self._members.items()):
            changes += self._judged(life, now)
            if member.state in _GONE and now - member.changed_at >= limits.dead_kept_s:
                del self._members[life]
        return changes

    def _missed(self, life: str, why: str, now: float) -> list[MemberChange]:
        if self._members[life].state is not MemberState.ALIVE:
            return []
        others = (each for each in self._members.values() if each.state is MemberState.SUSPECT)
        if next(others, None) is not None and now >= self._doubts_until:
            self.doubt(now)
        return self._step(life, MemberEvent.MISSED, why, now)

    def _judged(self, life: str, now: float) -> list[MemberChange]:
        """Whether a suspect is dead."""
        member = self._members[life]
        if member.state is not MemberState.SUSPECT or now < self._doubts_until:
            return []
        if self._proven_at is None or self._proven_at < member.changed_at or now < member.lives_until:
            return []
        if member.absent_since is not None and member.absent_at - member.absent_since >= self._limits.absent_s:
            return self._step(life, MemberEvent.LOST, "nobody answers for it", now)
        if now - member.heard_at >= self._limits.silent_s:
            return self._step(life, MemberEvent.LOST, "no beat", now)
        return []

    def _step(self, life: str, event: MemberEvent, why: str, now: float) -> list[MemberChange]:
        member = self._members.get(life)
        if member is None:
            return []
        following = MEMBER_TABLE.rows[member.state].get(event)
        if following is None or following is member.state:
            return []
        before, member.state, member.changed_at = member.state, following, now
        return [MemberChange(life, before, following, why)]

    # What follows from it

    def to_ask(self, now: float) -> list[str]:
        """Whom to ask whether they are there: suspects, and those whose beat is late."""
        # Not while beats may only wait to be read.
        late_s = self._limits.beat_s + self._limits.probe_s if now >= self._doubts_until else self._limits.suspect_s
        return [
            life
            for life, member in self._members.items()
            if member.state is MemberState.SUSPECT
            or (member.state is MemberState.ALIVE and now - member.heard_at >= late_s)
        ]

    def able(self, kind: str, own: Beat) -> list[str]:
        """The nodes that can take a room of this kind now; `own` is this node's beat."""
        beats = (member.beat for member in self._members.values() if member.state is MemberState.ALIVE)
        return [beat.life for beat in (own, *beats) if self._is_able(beat, kind)]

    def next_owner(self, room_id: str, kind: str, own: Beat) -> str | None:
        """Who should take this room over; None if nobody can."""
        return next_owner(room_id, self.able(kind, own))

    def next_taker(self, session_id: str, own: Beat) -> str | None:
        """Who should take over this session, which has no room."""
        beats = (member.beat for member in self._members.values() if member.state is MemberState.ALIVE)
        return next_owner(session_id, [beat.life for beat in (own, *beats) if self._takes(beat)])

    def _takes(self, beat: Beat) -> bool:
        return not beat.is_draining and beat.loop_age_s < self._limits.suspect_s

    def _is_able(self, beat: Beat, kind: str) -> bool:
        return kind in beat.kinds and self._takes(beat)


def dead(changes: Iterable[MemberChange]) -> list[str]:
    """The lives whose rooms are free."""
    return [change.life for change in changes if change.after in _GONE]
