"""The desk: how a placement is started, read, stopped and remembered."""

import asyncio

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound, RoomFull, Throttled
from holdfast.core.placement import Queue
from holdfast.schemas.placement import QueueInfo
from tests.server.placement.fleet import ANYWHERE, DAY_ONE, Desk, FakeFleet, a_node, a_request, in_virtual_time


def a_full_fleet() -> FakeFleet:
    """Where a placement stays pending."""
    return FakeFleet(a_node("a", rooms=100))


# Starting


@in_virtual_time
async def test_a_placement_is_pending_at_once_and_fulfilled_with_its_room() -> None:
    fleet = FakeFleet(a_node("a"))
    desk = Desk(fleet)
    await asyncio.sleep(5.0)
    fleet.takes_s["a"] = 2.0

    begun = desk.start(a_request("anywhere", "ada", "bob", properties={"map": "castle"}, max_players=4), "ada")
    ended = await desk.end_of(begun.id)

    assert (begun.id, begun.queue, begun.status, begun.players) == ("made-1", "anywhere", "pending", ["ada", "bob"])
    assert (begun.started_at, begun.ended_at, begun.room) == (DAY_ONE + 5.0, 0.0, None)
    assert (ended.status, ended.node, ended.reason) == ("fulfilled", "a", "")
    assert (ended.started_at, ended.ended_at) == (DAY_ONE + 5.0, DAY_ONE + 7.0)
    assert ended.room is not None
    assert (ended.room.id, ended.room.kind, ended.room.players) == ("room-1", "arena", 2)
    assert fleet.rooms == {"room-1": "a"}


@in_virtual_time
async def test_every_change_is_told_in_order_with_the_owner() -> None:
    desk = Desk(FakeFleet(a_node("a")))

    of_ada = desk.start(a_request(), "ada")
    of_nobody = desk.start(a_request())
    await desk.end_of(of_ada.id)
    await desk.end_of(of_nobody.id)

    assert desk.told == [
        (of_ada, "ada"),
        (of_nobody, ""),
        (desk.get(of_ada.id), "ada"),
        (desk.get(of_nobody.id), ""),
    ]
    assert desk.story_of(of_ada.id) == ["pending", "fulfilled"]


@in_virtual_time
async def test_an_unknown_queue_is_refused_with_those_that_there_are() -> None:
    desk = Desk(FakeFleet(), Queue("ranked", ("*",)), Queue("casual", ("*",)))

    with pytest.raises(NotFound, match="unknown queue 'rankd'; this server has: casual, ranked"):
        desk.start(a_request("rankd"))

    assert desk.told == []


@in_virtual_time
async def test_players_who_cannot_all_be_seated_are_refused() -> None:
    desk = Desk(FakeFleet(a_node("a")))

    with pytest.raises(Invalid, match="'ada' is named 2 times"):
        desk.start(a_request("anywhere", "ada", "ada"))

    assert desk.list() == []


@in_virtual_time
async def test_two_queues_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two queues have the name 'anywhere'"):
        Desk(FakeFleet(), ANYWHERE, Queue("anywhere", ("a",)))


# The same id again


@in_virtual_time
async def test_the_same_id_with_the_same_request_is_the_same_placement_also_after_its_end() -> None:
    fleet = FakeFleet(a_node("a"))
    desk = Desk(fleet)

    first = desk.start(a_request("anywhere", "bob", id="mine"), "ada")
    again = desk.start(a_request("anywhere", "bob", id="mine"), "ada")
    ended = await desk.end_of("mine")
    later = desk.start(a_request("anywhere", "bob", id="mine"), "ada")

    assert first == again
    assert first.id == "mine"
    assert later == ended
    assert ended.status == "fulfilled"
    assert desk.story_of("mine") == ["pending", "fulfilled"]
    assert len(fleet.rooms) == 1


@in_virtual_time
async def test_the_same_id_with_another_request_or_of_somebody_else_is_a_conflict() -> None:
    desk = Desk(FakeFleet(a_node("a")))
    desk.start(a_request("anywhere", "bob", id="mine"), "ada")

    with pytest.raises(Conflict, match="'mine' was started with a different request"):
        desk.start(a_request("anywhere", "cy", id="mine"), "ada")
    with pytest.raises(Conflict):
        desk.start(a_request("anywhere", "bob", id="mine"), "eve")
    await desk.end_of("mine")
    with pytest.raises(Conflict):
        desk.start(a_request("anywhere", "cy", id="mine"), "ada")

    assert desk.story_of("mine") == ["pending", "fulfilled"]


@in_virtual_time
async def test_an_id_that_is_made_never_meets_one_that_was_chosen() -> None:
    desk = Desk(a_full_fleet())
    desk.start(a_request(id="made-1"))

    assert desk.start(a_request()).id == "made-2"


# Reading


@in_virtual_time
async def test_an_owner_sees_only_their_own_and_an_operator_all() -> None:
    desk = Desk(a_full_fleet())
    of_ada = desk.start(a_request(), "ada")

    assert desk.get(of_ada.id, "ada") == of_ada
    assert desk.get(of_ada.id) == of_ada
    for look in (desk.get, desk.stop):
        with pytest.raises(NotFound, match="there is no placement 'made-1'"):
            look(of_ada.id, "eve")
    with pytest.raises(NotFound):
        desk.get("another")
    assert desk.get(of_ada.id).status == "pending"


@in_virtual_time
async def test_the_list_has_the_pending_and_the_ended_oldest_first() -> None:
    desk = Desk(a_full_fleet())
    for name in ("one", "two", "three"):
        desk.start(a_request(id=name))
        await asyncio.sleep(0.5)

    desk.stop("two")

    assert [(info.id, info.status) for info in desk.list()] == [
        ("one", "pending"),
        ("two", "cancelled"),
        ("three", "pending"),
    ]


@in_virtual_time
async def test_a_queue_tells_how_many_wait_in_it() -> None:
    desk = Desk(a_full_fleet(), Queue("ranked", ("a", "region:eu"), 30.0), ANYWHERE)
    desk.start(a_request("ranked"))
    desk.start(a_request("ranked", id="mine"))
    desk.start(a_request("anywhere"))

    desk.stop("mine")

    assert desk.queues() == [
        QueueInfo("ranked", ["a", "region:eu"], 30.0, pending=1),
        QueueInfo("anywhere", ["*"], 60.0, pending=1),
    ]


# Stopping


@in_virtual_time
async def test_a_placement_that_is_stopped_while_it_waits_asks_no_node_again() -> None:
    fleet = a_full_fleet()
    desk = Desk(fleet)
    desk.start(a_request(id="mine"), "ada")
    await asyncio.sleep(3.0)

    stopped = desk.stop("mine", "ada")
    fleet.views["a"] = a_node("a")
    await asyncio.sleep(100.0)

    assert (stopped.status, stopped.reason, stopped.ended_at) == ("cancelled", "it was stopped", DAY_ONE + 3.0)
    assert desk.get("mine") == stopped
    assert desk.story_of("mine") == ["pending", "cancelled"]
    assert fleet.asked == []


@in_virtual_time
async def test_stopping_twice_is_stopping_once() -> None:
    desk = Desk(a_full_fleet())
    desk.start(a_request(id="mine"))

    first = desk.stop("mine")
    await asyncio.sleep(1.0)

    assert desk.stop("mine") == first
    assert desk.story_of("mine") == ["pending", "cancelled"]


@in_virtual_time
async def test_a_placement_that_ended_otherwise_cannot_be_stopped() -> None:
    fleet = FakeFleet(a_node("a"))
    desk = Desk(fleet)
    desk.start(a_request(id="mine"))
    await desk.end_of("mine")

    with pytest.raises(Conflict, match="'mine' is fulfilled; only a pending one can be stopped"):
        desk.stop("mine")

    assert desk.get("mine").status == "fulfilled"
    assert fleet.rooms == {"room-1": "a"}


@in_virtual_time
async def test_closing_cancels_what_is_pending_and_takes_no_more() -> None:
    desk = Desk(a_full_fleet())
    for name in ("one", "two"):
        desk.start(a_request(id=name))

    await desk.close()

    assert [(info.status, info.reason) for info in desk.list()] == [("cancelled", "the node is stopping")] * 2
    assert desk.story_of("one") == desk.story_of("two") == ["pending", "cancelled"]
    with pytest.raises(Throttled, match="stopping"):
        desk.start(a_request(id="three"))
    assert desk.start(a_request(id="one")).status == "cancelled"


@in_virtual_time
async def test_closing_an_idle_desk_or_a_closed_one_does_nothing() -> None:
    desk = Desk(a_full_fleet())

    await desk.close()
    await desk.close()

    assert desk.told == []


# Bounds


@in_virtual_time
async def test_only_so_many_may_be_pending() -> None:
    desk = Desk(a_full_fleet(), pending_max=3)
    for number in range(3):
        desk.start(a_request(id=f"p{number}"))

    with pytest.raises(Throttled, match="3 placements are pending"):
        desk.start(a_request())

    assert desk.start(a_request(id="p0")).status == "pending", "what is known is no new one"
    desk.stop("p0")
    await asyncio.sleep(0.1)
    assert desk.start(a_request()).status == "pending"


@in_virtual_time
async def test_a_room_that_is_still_being_made_counts_after_its_placement_was_stopped() -> None:
    fleet = FakeFleet(a_node("a"))
    fleet.takes_s["a"] = 50.0
    desk = Desk(fleet, pending_max=3)
    for _ in range(3):
        begun = desk.start(a_request())
        await asyncio.sleep(0.1)
        desk.stop(begun.id)

    with pytest.raises(Throttled):
        desk.start(a_request())

    await asyncio.sleep(60.0)
    assert desk.start(a_request()).status == "pending"


@in_virtual_time
async def test_one_player_cannot_take_the_places_of_all_others() -> None:
    desk = Desk(a_full_fleet(), pending_per_owner_max=2)
    for _ in range(2):
        desk.start(a_request(), "eve")

    with pytest.raises(Throttled, match="you have 2 pending placements"):
        desk.start(a_request(), "eve")

    assert desk.start(a_request(), "ada").status == "pending"
    for _ in range(5):
        assert desk.start(a_request()).status == "pending", "operators have no such limit"


@in_virtual_time
async def test_the_ended_are_kept_for_a_while() -> None:
    desk = Desk(a_full_fleet(), kept_s=60.0)
    desk.start(a_request(id="mine"))
    desk.stop("mine")

    await asyncio.sleep(59.0)
    assert desk.get("mine").status == "cancelled"
    await asyncio.sleep(1.0)

    assert desk.list() == []
    for look in (desk.get, desk.stop):
        with pytest.raises(NotFound, match="kept for 60 s"):
            look("mine")
    assert desk.start(a_request("anywhere", "ada", id="mine")).status == "pending", "its id is free again"


@in_virtual_time
async def test_an_id_that_is_used_again_has_a_timeout_of_its_own() -> None:
    desk = Desk(a_full_fleet(), kept_s=10.0)
    desk.start(a_request(id="mine"))
    desk.stop("mine")
    await asyncio.sleep(20.0)

    desk.start(a_request(id="mine"))
    ended = await desk.end_of("mine")

    assert (ended.status, ended.ended_at) == ("timed_out", DAY_ONE + 80.0)


@in_virtual_time
async def test_only_so_many_of_the_ended_are_kept_and_the_first_to_end_gives_way() -> None:
    desk = Desk(a_full_fleet(), kept_max=2)
    for name in ("one", "two", "three", "four"):
        desk.start(a_request(id=name))

    for name in ("three", "one", "four"):
        assert desk.stop(name).status == "cancelled"

    assert {info.id for info in desk.list()} == {"two", "one", "four"}
    assert desk.get("two").status == "pending"


@in_virtual_time
async def test_a_reason_is_cut_to_what_can_travel() -> None:
    fleet = FakeFleet(a_node("a"))
    fleet.refusals["a"] = RoomFull("x" * 10_000)
    desk = Desk(fleet)
    desk.start(a_request(id="mine"))

    ended = await desk.end_of("mine")

    assert ended.status == "timed_out"
    assert len(ended.reason) == 1024
