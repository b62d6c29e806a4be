from typing import Any

import msgspec
import pytest

from holdfast import Session
from tests.server.foreign import DOORS, JSON, MSGPACK, Door, Foreigner, Frame
from tests.server.hostile.peers import closed
from tests.server.hostile_world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Requests


@pytest.mark.parametrize("request_id", [2, 2**53 - 1])
async def test_a_request_out_of_order_closes_the_connection(guest: Foreigner, request_id: int) -> None:
    await guest.say(["request", request_id, "search", {}])

    assert await closed(guest) == (4002, "sequence")


async def test_a_request_out_of_order_leaves_nothing_behind(world: World, guest: Foreigner) -> None:
    await guest.say(["request", 2, "search", {}])
    await closed(guest)

    kept = [key for each in vars(world.server.parts.requests).values() if isinstance(each, dict) for key in each]
    assert guest.welcome[1] not in {key.id for key in kept if isinstance(key, Session)}


async def test_too_many_requests_close_the_connection(guest: Foreigner) -> None:
    most = guest.welcome[5]["requests_in_flight_max"]

    await guest.say(*(["request", n, "search", {}] for n in range(1, most + 2)))

    assert await closed(guest) == (4002, "sequence")


async def test_as_many_requests_as_the_terms_allow_are_answered_in_order(guest: Foreigner) -> None:
    most = guest.welcome[5]["requests_in_flight_max"]

    await guest.say(*(["request", n, "search", {}] for n in range(1, most + 1)))

    assert [(await guest.hear("reply"))[1] for _ in range(most)] == list(range(1, most + 1))


async def test_a_repeated_request_is_carried_out_once_and_answered_alike(world: World, guest: Foreigner) -> None:
    request = ["request", 1, "create", {"kind": "hall"}]
    rooms = len(world.server.rooms)

    await guest.say(request, request)
    first = await guest.hear("reply")
    await guest.say(["request", 1, "create", {"kind": "hall", "max_players": 2}])
    second = await guest.hear("reply")

    assert first == second
    assert len(world.server.rooms) == rooms + 1


REFUSED_REQUESTS: dict[str, tuple[str, Any, str]] = {
    "an unknown operation": ("drop_tables", {}, "not_found"),
    "an unknown room": ("join", {"room": "nowhere"}, "not_found"),
    "an unknown kind": ("create", {"kind": "castle"}, "not_found"),
    "a missing argument": ("join", {}, "invalid"),
    "an unknown argument": ("leave", {"slowly": True}, "invalid"),
    "an unknown argument with a long name": ("leave", {"x" * 65_000: True}, "invalid"),
    "a wrong type": ("join", {"room": 7}, "invalid"),
    "a list of arguments": ("join", ["nowhere"], "invalid"),
    "no arguments": ("search", None, "invalid"),
    "an empty name": ("create", {"kind": ""}, "invalid"),
    "a long name": ("create", {"kind": "x" * 65}, "invalid"),
    "a limit of nothing": ("search", {"limit": 0}, "invalid"),
    "a limit without limits": ("search", {"limit": 101}, "invalid"),
    "no seats": ("create", {"kind": "hall", "max_players": 0}, "invalid"),
    "more seats than the kind has": ("create", {"kind": "hall", "max_players": 2**40}, "invalid"),
    "too many properties": ("create", {"kind": "hall", "properties": {str(n): n for n in range(65)}}, "invalid"),
    "properties with a long name": ("create", {"kind": "hall", "properties": {"x" * 65: 1}}, "invalid"),
    "no seat to leave": ("leave", {}, "not_seated"),
}


async def test_a_request_that_cannot_be_carried_out_is_answered_with_the_problem(
    guest: Foreigner, subtests: pytest.Subtests
) -> None:
    for n, (what, (operation, arguments, code)) in enumerate(REFUSED_REQUESTS.items(), 1):
        reply = await guest.ask(n, operation, arguments)

        with subtests.test(what):
            assert (reply[2], reply[3]["code"]) == (None, code)
            assert 0 < len(reply[3]["message"]) <= 1024


# Room properties: one client chooses them, every other client is shown them


async def everybody_can_search(world: World) -> list[Frame]:
    replies = []
    for each in DOORS:
        async with world.enter(each) as peer:
            await peer.sign_in()
            replies.append(await peer.ask(1, "search", {"limit": 100}))
    return replies


@pytest.mark.parametrize(
    "value", [msgspec.msgpack.Ext(5, b"x"), {(1, 2): 3}, {"deep": [{"er": msgspec.msgpack.Ext(1, b"")}]}]
)
async def test_properties_that_another_dialect_cannot_say_are_refused(world: World, value: Any) -> None:
    async with world.enter(Door("tcp", MSGPACK)) as peer:
        await peer.sign_in()

        reply = await peer.ask(1, "create", {"kind": "hall", "properties": {"map": value}})

    assert reply[3]["code"] == "invalid"
    assert [reply[3] for reply in await everybody_can_search(world)] == [None] * len(DOORS)


async def test_a_number_that_another_dialect_cannot_say_is_refused(world: World) -> None:
    async with world.enter(Door("tcp", JSON)) as peer:
        await peer.sign_in()

        reply = await peer.ask(1, "create", {"kind": "hall", "properties": {"map": 2**70}})

    assert reply[3] is None or reply[3]["code"] == "invalid"
    assert [reply[3] for reply in await everybody_can_search(world)] == [None] * len(DOORS)


async def test_no_properties_make_an_answer_larger_than_a_payload(world: World, guest: Foreigner) -> None:
    sizes = [65_300, 20_000, 4000, 1000]
    requests = [
        ["request", n, "create", {"kind": "hall", "properties": {"map": "x" * size}}] for n, size in enumerate(sizes, 1)
    ]
    for request in requests:
        await guest.say(request)
        await guest.hear("reply")
    for n in range(5, 105):
        await guest.ask(n, "create", {"kind": "hall", "properties": {"map": "x" * 1000}})

    rooms = await world.bystander.session.search(limit=100)

    assert rooms
    await world.bystander.plays_on()
