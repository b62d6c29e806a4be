"""What a session asks of the directory, and what it makes of the answers: against a server that is written down."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from holdfast import ClientSession
from holdfast.client.session import RoomList
from holdfast.core import errors
from holdfast.core.codec import MSGPACK
from holdfast.core.errors import NotFound, ProtocolError, Refused
from holdfast.core.messages import HostChanged, RoomUpdated
from holdfast.schemas import requests
from holdfast.schemas.frames import Data, SeatFrame
from holdfast.schemas.player import ReservationInfo
from tests.client.desk import Desk, answered, page, room, until_back, visit
from tests.client.fake_server import in_virtual_time

Call = Callable[[ClientSession], Awaitable[Any]]

PASSWORD = "open sesame"


# What is asked


CALLS: list[tuple[Call, str, dict[str, Any]]] = [
    (lambda session: session.create("arena"), "create", {"kind": "arena"}),
    (
        lambda session: session.create(
            "arena",
            properties={"map": "cave"},
            max_players=4,
            name="Ada's",
            visibility="private",
            password=PASSWORD,
            idempotency_key="k1",
        ),
        "create",
        {
            "kind": "arena",
            "properties": {"map": "cave"},
            "max_players": 4,
            "name": "Ada's",
            "visibility": "private",
            "password": PASSWORD,
            "idempotency_key": "k1",
        },
    ),
    (lambda session: session.search(), "search", {}),
    (
        lambda session: session.search(
            "arena", where="players > 1", order_by=["players desc", "name"], limit=5, cursor="c"
        ),
        "search",
        {"kind": "arena", "where": "players > 1", "order_by": ["players desc", "name"], "limit": 5, "cursor": "c"},
    ),
    (lambda session: session.search(order_by="players desc"), "search", {"order_by": ["players desc"]}),
    (lambda session: session.join("r1"), "join", {"room": "r1"}),
    (lambda session: session.join(code="BCDFGH", password=PASSWORD), "join", {"code": "BCDFGH", "password": PASSWORD}),
    (lambda session: session.join_or_create("arena"), "join_or_create", {"kind": "arena"}),
    (
        lambda session: session.join_or_create(
            "arena",
            where="players > 1",
            properties={"map": "cave"},
            max_players=4,
            name="Ada's",
            visibility="private",
            password=PASSWORD,
        ),
        "join_or_create",
        {
            "kind": "arena",
            "properties": {"map": "cave"},
            "max_players": 4,
            "name": "Ada's",
            "visibility": "private",
            "password": PASSWORD,
            "where": "players > 1",
        },
    ),
    (lambda session: session.reserve("r1"), "reserve", {"room": "r1"}),
    (
        lambda session: session.reserve(code="BCDFGH", password=PASSWORD, players=("ada", "bob"), ttl_s=90),
        "reserve",
        {"code": "BCDFGH", "password": PASSWORD, "players": ["ada", "bob"], "ttl_s": 90},
    ),
    (lambda session: session.release("r1"), "release", {"room": "r1"}),
    (lambda session: session.release("r1", "bob"), "release", {"room": "r1", "players": ["bob"]}),
    (lambda session: session.my_rooms(), "mine", {}),
    (lambda session: session.update_room("r1"), "update", {"room": "r1"}),
    (
        lambda session: session.update_room("r1", set={"level": 2}, remove="map", password="", if_version=0),
        "update",
        {"room": "r1", "set": {"level": 2}, "remove": ["map"], "password": "", "if_version": 0},
    ),
    (
        lambda session: session.update_room(
            "r1",
            name="Bob's",
            set=None,
            max_players=2,
            join_policy="deny_all",
            locked=False,
            visibility="private",
            host="bob",
        ),
        "update",
        {
            "room": "r1",
            "name": "Bob's",
            "max_players": 2,
            "join_policy": "deny_all",
            "locked": False,
            "visibility": "private",
            "host": "bob",
        },
    ),
    (lambda session: session.place("eu", "arena"), "start_placement", {"queue": "eu", "kind": "arena"}),
    (
        lambda session: session.place(
            "eu",
            "arena",
            players=["ada", requests.PlacedPlayer("bob", {"eu": 20.0})],
            id="p1",
            name="Ada's",
            properties={"map": "cave"},
            max_players=4,
            visibility="private",
        ),
        "start_placement",
        {
            "queue": "eu",
            "kind": "arena",
            "players": [{"id": "ada"}, {"id": "bob", "latencies_ms": {"eu": 20.0}}],
            "id": "p1",
            "name": "Ada's",
            "properties": {"map": "cave"},
            "max_players": 4,
            "visibility": "private",
        },
    ),
]


@pytest.mark.parametrize(("call", "operation", "arguments"), CALLS)
def test_a_call_says_what_differs_from_the_defaults_and_no_more(
    call: Call, operation: str, arguments: dict[str, Any]
) -> None:
    @in_virtual_time
    async def story() -> None:
        desk = Desk()
        async with visit(desk) as session:
            task = asyncio.ensure_future(call(session))
            (await desk.asked(operation, **arguments)).refuse("not_allowed")
            with pytest.raises(errors.NotAllowed):
                await task

    story()


@pytest.mark.parametrize(
    ("method", "wish"),
    [
        (ClientSession.create, requests.Create),
        (ClientSession.search, requests.Search),
        (ClientSession.search_all, requests.Search),
        (ClientSession.watch, requests.Watch),
        (ClientSession.join, requests.Join),
        (ClientSession.join_or_create, requests.JoinOrCreate),
        (ClientSession.reserve, requests.Reserve),
        (ClientSession.release, requests.Release),
        (ClientSession.wait_for_seat, requests.Wait),
        (ClientSession.place, requests.StartPlacement),
    ],
)
def test_the_defaults_of_a_call_are_those_of_its_request(
    method: Callable[..., Any], wish: type[msgspec.Struct]
) -> None:
    defaults = {field.name: field for field in msgspec.structs.fields(wish)}

    for name, parameter in inspect.signature(method).parameters.items():
        field = defaults.get(name)
        if field is not None and not field.required:
            empty = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            assert (parameter.default or None) == (empty or None), name


# What is made of the answers


@in_virtual_time
async def test_answers_are_typed() -> None:
    desk = Desk()
    kept = ReservationInfo("r1", ["ada", "bob"], 60.0)
    async with visit(desk) as session:
        assert await answered(session.create("arena"), desk, room(1, code="BCDFGH")) == room(1, code="BCDFGH")
        assert await answered(session.update_room("room-1"), desk, room(1, version=2)) == room(1, version=2)
        assert await answered(session.my_rooms(), desk, [room(1), room(2)]) == [room(1), room(2)]
        assert await answered(session.reserve("r1", players=["ada", "bob"]), desk, kept) == kept
        assert await answered(session.release("r1"), desk, None) is None


@in_virtual_time
async def test_a_page_is_a_list_with_a_cursor() -> None:
    desk = Desk()
    async with visit(desk) as session:
        found = await answered(session.search("arena"), desk, page(room(1), room(2), cursor="next"))

        assert isinstance(found, RoomList)
        assert found == [room(1), room(2)]
        assert found.cursor == "next"


@in_virtual_time
async def test_all_pages_are_asked_for_one_after_the_other_as_they_are_read() -> None:
    desk = Desk()
    async with visit(desk) as session:
        rooms = session.search_all("arena", where="", order_by="name")
        first = asyncio.ensure_future(anext(rooms))
        asked = await desk.asked("search", kind="arena", where="", order_by=["name"], limit=100)
        asked.answer(page(room(1), room(2), cursor="c2"))

        assert await first == room(1)
        assert await anext(rooms) == room(2)
        assert await desk.is_asked_nothing()

        rest = asyncio.ensure_future(collect(rooms))
        asked = await desk.asked("search", kind="arena", where="", order_by=["name"], limit=100, cursor="c2")
        asked.answer(page(cursor="c3"))
        asked = await desk.asked("search", kind="arena", where="", order_by=["name"], limit=100, cursor="c3")
        asked.answer(page(room(3)))

        assert await rest == [room(3)]


async def collect(rooms: Any) -> list[Any]:
    return [info async for info in rooms]


@in_virtual_time
async def test_an_answer_that_makes_no_sense_is_the_servers_fault() -> None:
    desk = Desk()
    async with visit(desk) as session:
        with pytest.raises(ProtocolError, match="the answer to 'create' is invalid"):
            await answered(session.create("arena"), desk, {"id": 1})
        with pytest.raises(ProtocolError, match="the answer to 'search' is invalid"):
            await answered(session.search("arena"), desk, [1])


REFUSALS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Refused)]


@pytest.mark.parametrize("kind", REFUSALS)
def test_every_refusal_is_raised_as_what_it_is(kind: type[Refused]) -> None:
    @in_virtual_time
    async def story() -> None:
        desk = Desk()
        async with visit(desk) as session:
            task = asyncio.ensure_future(session.create("arena"))
            (await desk.asked("create", kind="arena")).refuse(kind.code)
            with pytest.raises(kind, match=f"because of {kind.code}") as refused:
                await task
            assert type(refused.value) is kind

    story()


# Seats


def seat(number: int, room_id: str) -> SeatFrame:
    return SeatFrame("joined", number, 1, room_id, "arena")


def said(seq: int, message: Any) -> Data:
    return Data(1, seq, 0, message.wire_name, Raw(MSGPACK.encode(message)))


@in_virtual_time
async def test_a_room_knows_its_entry_and_its_host_and_hears_of_every_change() -> None:
    desk = Desk()
    async with visit(desk) as session:
        joining = asyncio.ensure_future(session.join(code="BCDFGH"))
        asked = await desk.asked("join", code="BCDFGH")
        asked.link.say(seat(1, "room-1"), asked.reply(room(1, host="ada")))
        joined = await joining
        assert (joined.info, joined.host) == (room(1, host="ada"), "ada")

        updated = RoomUpdated(room(1, name="other", host="ada", version=2))
        desk.link.say(said(1, updated), said(2, HostChanged("bob")))

        assert joined.info == room(1, name="other", host="bob", version=2)
        assert joined.host == "bob"
        assert joined.poll() == [updated, HostChanged("bob")]


@in_virtual_time
async def test_an_entry_that_the_room_has_told_of_since_is_not_put_back_by_the_answer() -> None:
    desk = Desk()
    async with visit(desk) as session:
        joining = asyncio.ensure_future(session.join_or_create("arena"))
        asked = await desk.asked("join_or_create", kind="arena")
        asked.link.say(seat(1, "room-1"), said(1, RoomUpdated(room(1, version=2))), asked.reply(room(1, version=1)))

        assert (await joining).info == room(1, version=2)


@in_virtual_time
async def test_a_host_that_changes_before_the_entry_is_known_is_known() -> None:
    desk = Desk()
    async with visit(desk) as session:
        desk.link.say(seat(1, "room-1"), said(1, HostChanged("bob")))

        assert session.room is not None
        assert (session.room.info, session.room.host) == (None, "bob")


@in_virtual_time
async def test_a_room_changes_its_own_entry() -> None:
    desk = Desk()
    async with visit(desk) as session:
        desk.link.say(seat(1, "room-1"))
        assert session.room is not None

        task = asyncio.ensure_future(session.room.update(set={"level": 3}, if_version=4))
        (await desk.asked("update", room="room-1", set={"level": 3}, if_version=4)).answer(room(1, version=5))

        assert await task == room(1, version=5)


@in_virtual_time
async def test_what_cannot_be_changed_is_a_mistake_of_the_program() -> None:
    async with visit(Desk()) as session:
        with pytest.raises(TypeError, match="colour"):
            await session.update_room("room-1", colour="red")  # type: ignore[call-arg]  # that is the point


@in_virtual_time
async def test_who_comes_back_joins_the_newest_of_their_rooms() -> None:
    desk = Desk()
    async with visit(desk) as session:
        task = asyncio.ensure_future(session.rejoin())
        mine = [room(1, created_at=5.0), room(2, created_at=7.0), room(3, created_at=6.0)]
        (await desk.asked("mine", seated=True)).answer(mine)
        asked = await desk.asked("join", room="room-2")
        asked.link.say(seat(1, "room-2"), asked.reply(mine[1]))

        assert (await task).id == "room-2"
        assert await session.rejoin() is session.room


@in_virtual_time
async def test_who_has_no_room_to_come_back_to_is_told_so() -> None:
    desk = Desk()
    async with visit(desk) as session:
        with pytest.raises(NotFound, match="no seat in any room"):
            await answered(session.rejoin(), desk, [])


# Secrets


@in_virtual_time
async def test_a_password_is_in_no_log_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk()
    async with visit(desk) as session:
        shown = []
        for call, code in [
            (session.create("arena", password=PASSWORD), "invalid"),
            (session.join("room-1", password=PASSWORD), "wrong_password"),
            (session.reserve("room-1", password=PASSWORD), "wrong_password"),
            (session.wait_for_seat("room-1", password=PASSWORD), "wrong_password"),
            (session.update_room("room-1", password=PASSWORD), "not_allowed"),
        ]:
            task = asyncio.ensure_future(call)
            asked = await desk.next_asked()
            assert asked.arguments["password"] == PASSWORD
            await until_back(session, desk)
            shown += [repr(task), repr(session.protocol.__dict__), repr(desk.links[0].heard)]
            again = await desk.next_asked()
            again.refuse(code)
            with pytest.raises(Refused) as refused:
                await task
            shown.append(repr(refused.value))
            while not await desk.is_asked_nothing():
                (await desk.next_asked()).refuse(code)

        assert PASSWORD not in caplog.text + "".join(shown)
