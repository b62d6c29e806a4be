"""The search for a node: which are asked, when again, and what ends it."""

import asyncio
import logging

import pytest

from holdfast.core.errors import Failed, Invalid, NotFound, Refused, RoomFull, Throttled
from holdfast.core.placement import LatencyPolicy, Queue
from holdfast.schemas.node import NodeInfo
from holdfast.schemas.requests import PlacedPlayer, StartPlacement
from tests.log_lines import line_of
from tests.server.placement.fleet import ANYWHERE, DAY_ONE, Desk, FakeFleet, a_node, a_request, in_virtual_time

IN_ORDER = Queue("in_order", ("a", "b", "c"), priority=("order",))


def a_row_of_nodes() -> FakeFleet:
    return FakeFleet(a_node("a"), a_node("b"), a_node("c"))


# Which node


@in_virtual_time
async def test_a_node_that_refuses_is_followed_by_the_next_best_at_once() -> None:
    fleet = a_row_of_nodes()
    fleet.refusals = {"a": RoomFull(), "b": Throttled("this node is full: it cannot take another room")}
    desk = Desk(fleet, IN_ORDER)

    begun = desk.start(a_request("in_order"))
    ended = await desk.end_of(begun.id)

    assert (ended.status, ended.node, ended.reason) == ("fulfilled", "c", "")
    assert fleet.asked == [(0.0, "a"), (0.0, "b"), (0.0, "c")]


@in_virtual_time
async def test_a_burst_spreads_over_the_fleet_though_no_room_is_there_yet() -> None:
    fleet = FakeFleet(*(a_node(f"node-{number}") for number in range(10)))
    fleet.takes_s = dict.fromkeys(fleet.views, 5.0)
    desk = Desk(fleet)

    for _ in range(100):
        desk.start(a_request())
    await asyncio.sleep(6.0)

    assert {info.status for info in desk.list()} == {"fulfilled"}
    assert [fleet.nodes_asked.count(name) for name in fleet.views] == [10] * 10


@in_virtual_time
async def test_a_node_is_not_asked_for_more_rooms_than_it_has_space_for() -> None:
    fleet = FakeFleet(a_node("a", rooms=98))
    fleet.takes_s["a"] = 5.0
    desk = Desk(fleet)

    for _ in range(3):
        desk.start(a_request())
    await asyncio.sleep(4.0)

    assert fleet.nodes_asked == ["a", "a"]
    assert desk.get("made-3").reason == "no node can take it: 1 full"


@in_virtual_time
async def test_a_room_that_was_refused_takes_no_space() -> None:
    fleet = FakeFleet(a_node("a", rooms=99))
    fleet.refusals["a"] = Refused("not now")
    desk = Desk(fleet)
    desk.start(a_request(id="mine"))

    await asyncio.sleep(2.5)

    assert fleet.asked == [(0.0, "a"), (1.0, "a"), (2.0, "a")]


# When again


@in_virtual_time
async def test_a_fleet_without_space_is_asked_again_until_it_has_some() -> None:
    fleet = FakeFleet(a_node("a", rooms=100))
    desk = Desk(fleet)
    desk.start(a_request(id="mine"))

    await asyncio.sleep(10.5)
    waiting = desk.get("mine")
    fleet.views["a"] = a_node("a", rooms=99)
    ended = await desk.end_of("mine")

    assert (waiting.status, waiting.reason) == ("pending", "no node can take it: 1 full")
    assert (ended.status, ended.reason, ended.ended_at) == ("fulfilled", "", DAY_ONE + 11.0)


@in_virtual_time
async def test_nodes_that_refuse_are_asked_again_after_a_pause() -> None:
    fleet = FakeFleet(a_node("a"), a_node("b"))
    fleet.refusals = {"a": Refused("not now"), "b": Failed("the game raised")}
    desk = Desk(fleet, retry_s=2.0)
    desk.start(a_request(id="mine"))

    await asyncio.sleep(3.0)
    waiting = desk.get("mine")
    del fleet.refusals["b"]
    ended = await desk.end_of("mine")

    assert (waiting.status, waiting.reason) == ("pending", "the game raised")
    assert fleet.asked == [(at_s, node) for at_s in (0.0, 2.0, 4.0) for node in "ab"]
    assert (ended.status, ended.node) == ("fulfilled", "b")
    assert desk.story_of("mine") == ["pending", "fulfilled"], "a refusal on the way is no change of state"
    told = [info.reason for info, _ in desk.told]
    assert told == ["", "the game raised", ""], "what is in the way is told when it is news, and only then"


PATIENT = Queue("patient", ("*",), latency_policies=(LatencyPolicy(50, 0.25), LatencyPolicy(100, 2.5)))


@pytest.mark.parametrize(("latency_ms", "at_s"), [(50.0, 0.0), (80.0, 0.25), (500.0, 2.75)])
def test_a_node_is_asked_the_moment_its_latency_will_do(latency_ms: float, at_s: float) -> None:
    @in_virtual_time
    async def story() -> None:
        fleet = FakeFleet(a_node("a"))
        desk = Desk(fleet, PATIENT)
        desk.start(StartPlacement("patient", "arena", [PlacedPlayer("ada", {"eu": latency_ms})], "mine"))

        await desk.end_of("mine")

        assert fleet.asked == [(at_s, "a")]

    story()


@in_virtual_time
async def test_a_policy_that_ended_while_a_node_was_asked_is_no_reason_to_pause() -> None:
    fleet = FakeFleet(a_node("near", "near"), a_node("far", "far"))
    fleet.refusals["near"] = RoomFull()
    fleet.takes_s["near"] = 1.0
    desk = Desk(fleet, PATIENT, retry_s=10.0)
    desk.start(StartPlacement("patient", "arena", [PlacedPlayer("ada", {"near": 10, "far": 80})], "mine"))

    ended = await desk.end_of("mine")

    assert fleet.asked == [(0.0, "near"), (1.0, "near"), (2.0, "far")]
    assert ended.node == "far"


# What ends it


@in_virtual_time
async def test_a_placement_that_nobody_took_times_out_and_says_what_was_last_in_the_way() -> None:
    fleet = FakeFleet(a_node("a"))
    fleet.refusals["a"] = Failed("a hook of the game raised")
    desk = Desk(fleet, Queue("short", ("*",), timeout_s=3.0))
    desk.start(a_request("short", id="mine"))

    ended = await desk.end_of("mine")
    await asyncio.sleep(100.0)

    assert (ended.status, ended.ended_at) == ("timed_out", DAY_ONE + 3.0)
    assert ended.reason == "no node took it within 3 s: a hook of the game raised"
    assert desk.story_of("mine") == ["pending", "timed_out"]
    assert fleet.asked == [(0.0, "a"), (1.0, "a"), (2.0, "a")]


@in_virtual_time
async def test_an_empty_fleet_times_out_too() -> None:
    desk = Desk(FakeFleet())
    desk.start(a_request(id="mine"))

    ended = await desk.end_of("mine")

    assert ended.status == "timed_out"
    assert ended.reason == (
        "no node took it within 60 s: no node can take it: the fleet has no destination of queue 'anywhere'"
    )


@pytest.mark.parametrize("error", [Invalid("max_players must be from 1 to 8"), NotFound("no kind is called 'arena'")])
def test_what_trying_again_cannot_mend_fails_at_once_with_its_sentence(error: Refused) -> None:
    @in_virtual_time
    async def story() -> None:
        fleet = FakeFleet(a_node("a"))
        fleet.refusals["a"] = error
        desk = Desk(fleet)
        desk.start(a_request(id="mine"))

        ended = await desk.end_of("mine")

        assert (ended.status, ended.reason) == ("failed", str(error))
        assert ended.ended_at < DAY_ONE + 0.1
        assert fleet.nodes_asked == ["a"]
        assert desk.story_of("mine") == ["pending", "failed"]

    story()


@in_virtual_time
async def test_a_node_that_does_not_host_the_kind_does_not_speak_for_the_others() -> None:
    fleet = a_row_of_nodes()
    fleet.refusals = {"a": NotFound("no such kind"), "b": RoomFull(), "c": NotFound("no such kind")}
    desk = Desk(fleet, IN_ORDER)
    desk.start(a_request("in_order", id="mine"))

    await asyncio.sleep(5.5)
    assert desk.get("mine").status == "pending"
    del fleet.refusals["b"]
    ended = await desk.end_of("mine")

    assert (ended.status, ended.node) == ("fulfilled", "b")


@in_virtual_time
async def test_when_no_node_hosts_the_kind_the_placement_fails() -> None:
    fleet = a_row_of_nodes()
    fleet.refusals = dict.fromkeys("abc", NotFound("no such kind"))
    desk = Desk(fleet, IN_ORDER)
    desk.start(a_request("in_order", id="mine"))

    ended = await desk.end_of("mine")

    assert (ended.status, ended.reason) == ("failed", "no such kind")
    assert fleet.nodes_asked == ["a", "b", "c"]


@in_virtual_time
async def test_a_bug_fails_one_placement_is_logged_once_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    fleet = a_row_of_nodes()
    fleet.refusals["a"] = ZeroDivisionError("a bug")
    desk = Desk(fleet, IN_ORDER, ANYWHERE)
    desk.start(a_request("in_order", id="hit"))

    hit = await desk.end_of("hit")
    del fleet.refusals["a"]
    desk.start(a_request(id="other"))

    assert (hit.status, hit.reason) == ("failed", "the placement failed; see the server's log")
    assert [line_of(record) for record in caplog.records] == [("a placement failed", {"placement": "hit"})]
    assert (await desk.end_of("other")).status == "fulfilled"


@in_virtual_time
async def test_a_fleet_that_cannot_be_looked_at_is_a_bug_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    class Unseen(FakeFleet):
        def nodes(self) -> list[NodeInfo]:
            raise LookupError("a bug")

    desk = Desk(Unseen())
    desk.start(a_request(id="mine"))

    assert (await desk.end_of("mine")).status == "failed"
    assert len(caplog.records) == 1


# Rooms that come too late


@in_virtual_time
async def test_a_room_that_is_made_after_its_placement_was_stopped_is_given_up() -> None:
    fleet = a_row_of_nodes()
    fleet.takes_s["a"] = 5.0
    desk = Desk(fleet, IN_ORDER)
    desk.start(a_request("in_order", id="mine"))
    await asyncio.sleep(1.0)

    stopped = desk.stop("mine")
    await asyncio.sleep(4.001)
    made = dict(fleet.rooms)
    await asyncio.sleep(1.0)

    assert made == {"room-1": "a"}
    assert fleet.rooms == {}
    assert desk.get("mine") == stopped
    assert desk.story_of("mine") == ["pending", "cancelled"]
    assert fleet.nodes_asked == ["a"]


@in_virtual_time
async def test_a_node_that_refuses_after_the_placement_was_stopped_changes_nothing() -> None:
    fleet = a_row_of_nodes()
    fleet.takes_s["a"] = 5.0
    fleet.refusals["a"] = NotFound("no such kind")
    desk = Desk(fleet, IN_ORDER)
    desk.start(a_request("in_order", id="mine"))
    await asyncio.sleep(1.0)

    stopped = desk.stop("mine")
    await asyncio.sleep(10.0)

    assert desk.get("mine") == stopped
    assert fleet.nodes_asked == ["a"], "the next one is not asked any more"


@in_virtual_time
async def test_a_node_that_hangs_does_not_stretch_the_timeout_and_its_room_is_given_up() -> None:
    fleet = FakeFleet(a_node("a"))
    fleet.takes_s["a"] = 100.0
    desk = Desk(fleet)
    desk.start(a_request(id="mine"))

    ended = await desk.end_of("mine")
    await asyncio.sleep(50.0)

    assert (ended.status, ended.ended_at) == ("timed_out", DAY_ONE + 60.0)
    assert ended.reason == "no node took it within 60 s"
    assert (fleet.nodes_asked, fleet.rooms) == (["a"], {})


@in_virtual_time
async def test_a_room_that_cannot_be_given_up_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    fleet = FakeFleet(a_node("a"))
    fleet.takes_s["a"] = 5.0
    fleet.cannot_give_up = NotFound("there is no room 'room-1'")
    desk = Desk(fleet)
    desk.start(a_request(id="mine"))
    await asyncio.sleep(1.0)

    desk.stop("mine")
    await asyncio.sleep(10.0)

    (record,) = caplog.records
    sentence, fields = line_of(record)
    assert (record.levelno, sentence) == (logging.WARNING, "a room was created too late and could not be ended")
    assert (fields["room"], fields["node"], str(fields["error"])) == ("room-1", "a", "there is no room 'room-1'")
    assert desk.get("mine").status == "cancelled"


@in_virtual_time
async def test_closing_waits_for_rooms_that_are_being_made_and_gives_them_up() -> None:
    fleet = FakeFleet(a_node("a"))
    fleet.takes_s["a"] = 1.0
    desk = Desk(fleet)
    desk.start(a_request(id="mine"))
    await asyncio.sleep(0.5)

    await desk.close()

    assert fleet.nodes_asked == ["a"]
    assert fleet.rooms == {}
    assert desk.get("mine").reason == "the node is stopping"
    assert asyncio.get_running_loop().time() == pytest.approx(1.01)


@in_virtual_time
async def test_closing_does_not_wait_for_ever() -> None:
    fleet = FakeFleet(a_node("a"))
    fleet.takes_s["a"] = 1000.0
    desk = Desk(fleet, close_s=2.0)
    desk.start(a_request(id="mine"))
    await asyncio.sleep(0.5)

    await desk.close()

    assert asyncio.get_running_loop().time() == pytest.approx(2.5)
    assert len(asyncio.all_tasks()) == 1, "nothing is left but this test"
    assert fleet.rooms == {}
