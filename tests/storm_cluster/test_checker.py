"""What the checker of the cluster adds: how long rooms had no owner, and who has them in the end."""

from pathlib import Path

import pytest

from tests.storm.story import ROOM, Story
from tests.storm_cluster.checker import LEADERLESS_S, UNOWNED_S, Checked, check


def story() -> Story:
    """The node of life 0 is killed at 2.0, its last record is of 1.5, and life 1 goes on at 3.0."""
    told = Story()
    for life, at in ((0, 1.5), (1, 3.0)):
        for line in told.audits[life]:
            line[1] = at
    told.storm += [["owns", 8.0, "node0"], ["owns", 8.0, "node1", ROOM]]
    return told


def later(told: Story, seconds: float) -> None:
    for line in told.audits[1]:
        line[1] += seconds


def kinds(checked: Checked) -> set[str]:
    return {violation.kind for violation in checked.findings.violations}


def test_a_room_is_without_an_owner_from_the_kill_to_the_first_record_of_another_life(tmp_path: Path) -> None:
    checked = check(story().write(tmp_path))

    assert checked.findings.violations == []
    [change] = checked.changes
    assert (change.room, change.cause, change.unowned_s) == (ROOM, "kill", 1.0)
    assert (change.is_disturbed, change.is_without_leader) == (False, False)


@pytest.mark.parametrize(
    ("lines", "cause", "is_disturbed", "is_without_leader"),
    [
        ([["drain", 1.6, 0]], "drain", False, False),
        ([["stop", 1.4, 0], ["continue", 4.0, 0]], "stop", False, False),
        ([["cut", 1.6, "node0", "back"]], "cut", False, False),
        ([["stop", 1.6, 1]], "move", True, False),
        ([["nats", 1.6, "down", 2, "SIGKILL"]], "move", False, True),
        ([["nats", 1.0, "up", 2]], "move", False, True),
        ([], "move", False, False),
    ],
)
def test_why_a_room_has_another_owner_is_what_was_done_to_the_one_before(
    lines: list[list[object]], cause: str, is_disturbed: bool, is_without_leader: bool, tmp_path: Path
) -> None:
    told = story()
    told.storm = [["start", 1.0, 0, "node0"], ["ready", 1.0, 0], ["start", 1.0, 1, "node1"], *lines]

    [change] = check(told.write(tmp_path)).changes

    assert (change.cause, change.is_disturbed, change.is_without_leader) == (cause, is_disturbed, is_without_leader)


def test_a_room_that_nobody_has_for_long_is_found(tmp_path: Path) -> None:
    told = story()
    later(told, UNOWNED_S)

    assert kinds(check(told.write(tmp_path))) == {"unowned"}


def test_without_a_leader_it_may_take_longer(tmp_path: Path) -> None:
    told = story()
    later(told, UNOWNED_S)
    told.storm.append(["nats", 2.5, "down", 0, "SIGKILL"])

    assert LEADERLESS_S > UNOWNED_S
    assert kinds(check(told.write(tmp_path))) == set()


@pytest.mark.parametrize(("owners", "kind"), [([], "unowned"), (["node0", "node1"], "owners")])
def test_a_room_that_is_on_no_node_or_on_two_in_the_end_is_found(owners: list[str], kind: str, tmp_path: Path) -> None:
    told = story()
    told.storm = [line for line in told.storm if line[0] != "owns"]
    told.storm += [["owns", 8.0, name, *([ROOM] if name in owners else [])] for name in ("node0", "node1")]

    assert kinds(check(told.write(tmp_path))) == {kind}
