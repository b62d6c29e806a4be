"""Who lives, by the rules alone: time is an argument."""

from collections.abc import Iterable

import pytest

from holdfast.cluster.membership import MEMBER_TABLE, MemberChange, MemberEvent, MemberList, MemberState
from holdfast.cluster.rendezvous import next_owner
from holdfast.core.limits import Limits
from holdfast.core.tables import IllegalTransition
from holdfast.schemas.beat import Beat

LIMITS = Limits()
BEAT_S = LIMITS.beat_s
ALIVE, SUSPECT, DEAD, LEFT = MemberState
OWN = Beat(life="own", number=1, kinds=("arena",))


class World:
    """Other nodes, which beat or do not, and what one node makes of it."""

    def __init__(self, *lives: str) -> None:
        self.now = 100.0
        self.members = MemberList("own", LIMITS, self.now)
        self.beating = dict.fromkeys(lives, 0)
        self.absent: set[str] = set()
        self.loop_ages_s: dict[str, float] = {}
        self.changes: list[tuple[float, MemberChange]] = []
        self.reaches_most = True
        self.pass_s(LIMITS.doubt_s + 1)
        self.changes.clear()

    def pass_s(self, seconds: float) -> None:
        for _ in range(round(seconds / BEAT_S)):
            self.now += BEAT_S
            for life in self.beating:
                self.beat(life)
            self.note(self.members.advance(self.now))
            if self.reaches_most:
                self.members.proven(self.now)
            for life in self.members.to_ask(self.now):
                if life in self.absent:
                    self.note(self.members.absent(life, self.now))
                else:
                    self.members.present(life)

    def beat(self, life: str) -> None:
        self.beating[life] += 1
        age_s = self.loop_ages_s.get(life, 0.0)
        beat = Beat(life=life, number=self.beating[life], kinds=("arena",), loop_age_s=age_s)
        self.note(self.members.heard(beat, self.now))

    def silence(self, *lives: str, absent: bool = False) -> float:
        """They beat no more; absent: nobody answers for them either."""
        for life in lives:
            del self.beating[life]
            if absent:
                self.absent.add(life)
        return self.now

    def note(self, changes: Iterable[MemberChange]) -> None:
        self.changes += [(self.now, change) for change in changes]

    def state(self, life: str) -> MemberState:
        return self.members.members[life].state

    def became(self, life: str, state: MemberState) -> float:
        """When it did, for the first time."""
        return next(at for at, change in self.changes if change.life == life and change.after is state)


EXPECTED = {
    (ALIVE, MemberEvent.HEARD): ALIVE,
    (ALIVE, MemberEvent.MISSED): SUSPECT,
    (ALIVE, MemberEvent.LOST): DEAD,
    (ALIVE, MemberEvent.SAID_BYE): LEFT,
    (SUSPECT, MemberEvent.HEARD): ALIVE,
    (SUSPECT, MemberEvent.LOST): DEAD,
    (SUSPECT, MemberEvent.SAID_BYE): LEFT,
    (DEAD, MemberEvent.HEARD): ALIVE,
    (DEAD, MemberEvent.SAID_BYE): LEFT,
}


def test_every_state_and_event_is_in_the_table_or_refused() -> None:
    for state in MemberState:
        for event in MemberEvent:
            if (state, event) in EXPECTED:
                assert MEMBER_TABLE.after(state, event) is EXPECTED[state, event]
            else:
                with pytest.raises(IllegalTransition):
                    MEMBER_TABLE.after(state, event)


def test_nodes_that_beat_are_known_and_stay_alive() -> None:
    world = World("a", "b")

    world.pass_s(60)

    assert {life: world.state(life) for life in "ab"} == {"a": ALIVE, "b": ALIVE}
    assert world.changes == []


def test_a_node_that_nobody_answers_for_is_dead_soon_after_its_last_beat() -> None:
    world = World("a", "b")

    began_at = world.silence("a", absent=True)
    world.pass_s(3)

    suspected_s = world.became("a", SUSPECT) - began_at
    dead_s = world.became("a", DEAD) - began_at
    assert BEAT_S + LIMITS.probe_s <= suspected_s <= LIMITS.suspect_s
    assert suspected_s + LIMITS.absent_s <= dead_s < LIMITS.silent_s
    assert world.state("b") is ALIVE


def test_a_node_whose_beat_is_late_is_asked_before_it_is_suspected() -> None:
    world = World("a", "b")

    world.silence("a")
    world.pass_s(2 * BEAT_S)

    assert world.members.to_ask(world.now) == ["a"]
    assert world.state("a") is ALIVE, "it answers: it may only be busy"


def test_nobody_is_dead_to_a_node_that_may_be_the_one_that_is_cut_off() -> None:
    world = World("a", "b")
    world.reaches_most = False

    world.silence("a", absent=True)
    world.silence("b")
    world.pass_s(30)
    assert {world.state(life) for life in "ab"} == {SUSPECT}

    world.reaches_most = True
    world.pass_s(LIMITS.doubt_s + 1)
    assert {world.state(life) for life in "ab"} == {DEAD}


def test_what_was_proven_before_a_node_fell_silent_does_not_count() -> None:
    world = World("a")

    world.silence("a", absent=True)
    world.pass_s(BEAT_S)
    world.reaches_most = False
    world.pass_s(30)

    assert world.state("a") is SUSPECT


def test_a_node_whose_loop_hangs_is_dead_also_to_one_that_cannot_prove_its_link() -> None:
    world = World("a", "b")
    world.reaches_most = False

    world.loop_ages_s["a"] = LIMITS.hung_s
    world.pass_s(BEAT_S)

    assert world.state("a") is DEAD, "it is heard"


def test_a_node_that_hangs_with_its_link_has_longer() -> None:
    world = World("a", "b")

    began_at = world.silence("a")
    world.pass_s(3)

    assert world.became("a", DEAD) - began_at == LIMITS.silent_s


def test_a_suspect_that_beats_again_was_never_dead() -> None:
    world = World("a", "b")

    world.silence("a", absent=True)
    world.pass_s(0.75)
    world.absent.clear()
    world.beating["a"] = 1000
    world.pass_s(5)

    assert [change.after for _, change in world.changes] == [SUSPECT, ALIVE]


def test_a_node_that_was_only_absent_for_a_moment_is_not_counted_from_then_on() -> None:
    world = World("a", "b")

    world.silence("a", absent=True)
    world.pass_s(0.75)
    world.absent.clear()  # it answers again, but does not beat
    world.pass_s(0.75)

    assert world.state("a") is SUSPECT


def test_a_bye_is_believed_at_once_and_a_late_beat_after_it_is_not() -> None:
    world = World("a", "b")

    world.silence("a")
    world.note(world.members.said_bye("a", world.now))
    world.note(world.members.heard(Beat(life="a", number=10**6), world.now))

    assert [change.after for _, change in world.changes] == [LEFT]


def test_a_blocked_event_loop_is_no_death_for_a_while_and_takes_no_rooms() -> None:
    world = World("a", "b")

    world.loop_ages_s["a"] = 2.0
    world.pass_s(1)
    assert world.state("a") is ALIVE
    assert world.members.able("arena", OWN) == ["own", "b"]

    world.loop_ages_s["a"] = LIMITS.hung_s
    world.pass_s(BEAT_S)
    assert world.state("a") is DEAD

    world.loop_ages_s["a"] = 0.0
    world.pass_s(BEAT_S)
    assert world.state("a") is ALIVE


def test_two_nodes_that_vanish_together_make_a_node_doubt_the_bus() -> None:
    world = World("a", "b", "c")

    began_at = world.silence("a", "b", absent=True)
    world.pass_s(5)

    for life in "ab":
        assert world.became(life, DEAD) - world.became(life, SUSPECT) >= LIMITS.doubt_s
        assert world.became(life, DEAD) - began_at <= LIMITS.suspect_s + LIMITS.doubt_s + 3 * BEAT_S


def test_a_bus_that_fails_for_two_seconds_kills_nobody() -> None:
    world = World("a", "b", "c")

    world.silence("a", "b", "c", absent=True)
    world.pass_s(2)
    world.absent.clear()
    world.beating = dict.fromkeys("abc", 1000)
    world.pass_s(5)

    assert DEAD not in {change.after for _, change in world.changes}


@pytest.mark.parametrize("why", ["its link was lost", "it was paused itself"])
def test_a_node_whose_own_fault_it_may_be_believes_nobody_dead(why: str) -> None:
    world = World("a", "b")
    heard_last_at = world.silence("a", absent=True)

    if why == "its link was lost":
        world.pass_s(0.75)
        world.members.doubt(world.now)
        doubted_at = world.now
    else:
        world.now += 3.0
        doubted_at = world.now + BEAT_S
    world.pass_s(LIMITS.doubt_s - BEAT_S)
    assert world.state("a") is SUSPECT
    world.pass_s(2 * BEAT_S)

    assert world.became("a", DEAD) >= doubted_at + LIMITS.doubt_s
    assert world.became("a", DEAD) > heard_last_at + LIMITS.silent_s


def test_a_node_that_has_just_come_believes_nobody_dead() -> None:
    members = MemberList("own", LIMITS, 0.0)
    members.heard(Beat(life="a", number=1), 0.0)

    changes = [change for n in range(1, 8) for change in members.advance(n * BEAT_S)]

    assert [change.after for change in changes] == [SUSPECT]


def test_beats_out_of_order_and_ones_own_are_ignored() -> None:
    world = World("a")
    world.beat("a")

    world.members.heard(Beat(life="a", number=1, load=0.9), world.now)
    world.members.heard(Beat(life="own", number=1), world.now)

    assert world.members.members["a"].beat.load == 0.0
    assert list(world.members.members) == ["a"]


def test_the_dead_are_forgotten_after_a_while_and_nodes_without_end_are_not_remembered() -> None:
    world = World("a", "b")
    world.silence("a", absent=True)
    world.pass_s(5)
    assert "a" in world.members.members

    world.pass_s(LIMITS.dead_kept_s)
    assert list(world.members.members) == ["b"]

    for number in range(2 * LIMITS.nodes_max):
        world.members.heard(Beat(life=f"n{number}", number=1), world.now)
    assert len(world.members.members) == LIMITS.nodes_max


def test_only_nodes_that_live_and_can_are_next_to_own_a_room() -> None:
    members = MemberList("own", LIMITS, 0.0)
    for beat in (
        Beat(life="a", number=1, kinds=("arena",)),
        Beat(life="draining", number=1, kinds=("arena",), is_draining=True),
        Beat(life="other", number=1, kinds=("lobby",)),
        Beat(life="gone", number=1, kinds=("arena",)),
    ):
        members.heard(beat, 0.0)
    members.said_bye("gone", 0.1)

    assert members.able("arena", OWN) == ["own", "a"]
    assert {members.next_owner(f"room {n}", "arena", OWN) for n in range(50)} == {"own", "a"}
    assert members.next_owner("room", "nothing", OWN) is None


def test_rooms_are_spread_evenly_and_only_those_of_a_lost_node_move() -> None:
    rooms, lives = [f"room-{n}" for n in range(3000)], ["a", "b", "c"]
    before = {room: next_owner(room, lives) for room in rooms}

    after = {room: next_owner(room, reversed(lives[:2])) for room in rooms}

    moved = [room for room in rooms if before[room] != after[room]]
    assert moved == [room for room in rooms if before[room] == "c"]
    for owners, count in ((before, 1000), (after, 1500)):
        for life in set(owners.values()):
            assert abs(sum(owner == life for owner in owners.values()) - count) < count / 5
    assert next_owner("room", []) is None
