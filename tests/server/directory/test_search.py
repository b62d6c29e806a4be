"""Searching for rooms through a session: what is found, by whom, in which pages, and how much it may cost."""

import asyncio
import logging
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast import ClientSession, Invalid, Limits, PlayerData, Refused, Room
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.room import context_of
from holdfast.schemas.requests import Search
from holdfast.schemas.room import RoomInfo, RoomPage
from holdfast.testing import MemoryServer, generous
from tests.server.directory.seats import arena, patient, served
from tests.server.durability.bench import in_virtual_time
from tests.server.world import World, chat


async def _ids(session: ClientSession, where: str = "", **wish: Any) -> list[str]:
    return [info.id for info in await session.search(where=where, **wish)]


async def _all_pages(session: ClientSession, **wish: Any) -> list[list[RoomInfo]]:
    pages = [await session.search(**wish)]
    while pages[-1].cursor:
        pages.append(await session.search(**wish, cursor=pages[-1].cursor))
    return [list(page) for page in pages]


class Turns:
    """Counts the turns of the loop while it is open."""

    def __init__(self) -> None:
        self.count = 0
        self._is_open = True

    def __enter__(self) -> "Turns":
        self._go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False

    def _go_on(self) -> None:
        if self._is_open:
            self.count += 1
            asyncio.get_running_loop().call_soon(self._go_on)


# What is asked for


async def test_a_search_finds_what_it_describes_in_the_order_it_asks_for(world: World) -> None:
    server = await world.serve(chat(), arena())
    session = await world.connect(server)
    rooms = [
        await session.create("chat", name=f"room {level}", properties={"level": level, "mode": mode})
        for level, mode in ((3, "ctf"), (1, "ctf"), (2, "duel"), (4, "ctf"))
    ]
    other = await session.create("arena", properties={"level": 9, "mode": "ctf"})
    first, second, third, fourth = (room.id for room in rooms)

    assert await _ids(session, "properties.mode = 'ctf'", kind="chat") == [first, second, fourth]
    assert await _ids(session, "properties.level >= 2", order_by="properties.level desc") == [
        other.id, fourth, first, third,
    ]  # fmt: skip
    assert await _ids(session, kind="chat", order_by=["properties.mode desc", "name"]) == [
        third, second, first, fourth,
    ]  # fmt: skip
    assert await _ids(session, "name IN ('room 1', 'room 2') AND NOT open_seats = 0") == [second, third]


async def test_a_page_has_so_many_rooms_and_its_cursor_goes_on_from_there(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    made = [(await session.create("chat", properties={"level": level % 3})).id for level in range(10)]

    pages = await _all_pages(session, order_by="properties.level desc", limit=4)

    assert [len(page) for page in pages] == [4, 4, 2]
    assert [info.id for page in pages for info in page] == made[2::3] + made[1::3] + made[0::3]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"where": "open_seats > 0 AND flavour = 1"}, "column 20"),
        ({"where": "players = = 2"}, "column 11"),
        ({"where": "", "order_by": ["players desc", "level"]}, "order_by"),
        ({"where": "", "cursor": "nonsense"}, "cursor"),
    ],
)
async def test_a_search_that_cannot_be_read_is_refused_with_what_is_wrong_in_it(
    world: World, wish: dict[str, Any], told: str
) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)

    with pytest.raises(Invalid, match=told):
        await session.search(**wish)


async def test_a_search_that_compares_a_property_with_another_type_is_told_so_if_it_finds_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    await ada.create("chat", properties={"level": "3"}, visibility="private")

    assert (await bob.search("chat", where="properties.level > 2")).hint == "", "the room is not his to know of"
    assert not caplog.messages
    page = await ada.search("chat", where="properties.level > 2")
    async with ada.watch("chat", where="properties.level > 2") as watch:
        assert watch.rooms == {}

    assert page == []
    assert page.hint.startswith("no room can match: properties.level is compared with a number, and is text")
    assert [message.split(":")[0] for message in caplog.messages if page.hint in message]
    assert (await ada.search("chat", where="properties.level > ''")).hint == ""


async def test_a_cursor_goes_on_its_own_search_only(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    for _ in range(3):
        await session.create("chat")
    page = await session.search(limit=2)

    with pytest.raises(Invalid, match="a different search"):
        await session.search(order_by="name", cursor=page.cursor)


# Who sees what


async def test_a_private_room_is_found_by_those_who_made_it_or_have_a_seat_in_it(world: World) -> None:
    server = await world.serve(chat(max_players=4))
    maker, member, invited, stranger = [await world.connect(server) for _ in range(4)]
    room = await maker.create("chat", visibility="private")
    seat = await member.join(room.id)
    await maker.reserve(room.id, players=[invited.player_id])

    for session in (maker, member, invited):
        assert await _ids(session) == [room.id]
    assert await _ids(stranger) == []
    page = await server.operate.rooms.search(Search(where=""))
    assert [info.id for info in page.rooms] == [room.id]

    await seat.leave()
    assert await _ids(member) == []


async def test_a_code_is_shown_to_those_who_know_it_and_to_operators_and_nobody_else(world: World) -> None:
    server = await world.serve(chat())
    maker, member, stranger = [await world.connect(server) for _ in range(3)]
    room = await maker.create("chat")
    await member.join(room.id)

    codes = [(await session.search())[0].code for session in (maker, member, stranger)]
    page = await server.operate.rooms.search(Search())

    assert codes == [room.code, room.code, ""]
    assert page.rooms[0].code == room.code


async def test_what_has_changed_is_found_by_the_very_next_search(world: World) -> None:
    server = await world.serve(chat(max_players=1))
    session, other = await world.connect(server), await world.connect(server)
    info = await session.create("chat", properties={"level": 1})
    room = server.rooms.get(info.id)
    assert room is not None

    room.properties["level"] = 2
    assert await _ids(other, "properties.level = 2") == [info.id]
    room.start()
    assert await _ids(other, "phase = 'playing'") == [info.id]
    room.lock()
    assert await _ids(other, "open_seats > 0") == []
    assert await _ids(other, "is_locked = true") == [info.id]
    room.unlock()
    seat = await session.join(info.id)
    assert await _ids(other, "open_seats = 0 AND players = 1") == [info.id]
    await seat.leave()
    assert await _ids(other, "open_seats > 0") == [info.id]
    await session.update_room(info.id, visibility="private")
    assert await _ids(other) == []
    room.close()
    assert await _ids(session) == []


class Thoughtful(Room[PlayerData]):
    """Its beginning and its end take as long as the test wants."""

    agreed: asyncio.Event
    is_refused = False

    async def on_create(self, config: dict[str, Any]) -> None:
        await self.agreed.wait()
        if self.is_refused:
            raise Refused("no such map")

    async def on_destroy(self) -> None:
        await self.agreed.wait()


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_room_is_not_found_before_its_game_has_agreed_to_it(world: World, *, is_refused: bool) -> None:
    agreed = asyncio.Event()
    server = await world.serve(arena(Thoughtful, agreed=agreed, is_refused=is_refused))
    maker, other = await world.connect(server), await world.connect(server)

    making = asyncio.create_task(maker.create("arena"))
    for _ in range(3):
        assert await _ids(other) == []
        assert (await server.operate.rooms.search(Search(where=""))).rooms == []
    agreed.set()
    await asyncio.wait([making])

    assert await _ids(other) == ([] if is_refused else [making.result().id])
    if is_refused:
        with pytest.raises(Refused, match="no such map"):
            making.result()


async def test_a_room_that_is_ending_is_found_with_no_seat_for_anybody(world: World) -> None:
    agreed = asyncio.Event()
    server = await world.serve(arena(Thoughtful, agreed=agreed))
    agreed.set()
    session = await world.connect(server)
    room = await session.create("arena")
    agreed.clear()

    server.rooms.runner(room.id).end("closed")
    ending = await session.search(where="")

    assert [(info.status, info.reason, info.open_seats) for info in ending] == [("ending", "closed", 0)]
    assert await _ids(session, "open_seats > 0") == []
    agreed.set()


async def test_a_room_that_its_game_has_spoiled_hides_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    rooms = [await session.create("chat", properties={"tags": ["a"]}) for _ in range(4)]
    spoiled, shown, changed, last = [server.rooms.get(info.id) for info in rooms]
    assert spoiled is not None
    assert shown is not None
    assert changed is not None
    assert last is not None

    with caplog.at_level(logging.CRITICAL):
        spoiled.max_players = "many"  # type: ignore[assignment]  # as a game may that does not check its types
        spoiled.lock()
        shown.properties["map"] = object()
        changed.properties["tags"].append(object())
        last.lock()
        found = await session.search(where="")

    assert [(info.id, info.properties) for info in found] == [
        (shown.id, {}), (changed.id, {"tags": ["a"]}), (last.id, {"tags": ["a"]}),
    ]  # fmt: skip


# Pages that fit


_LONG: list[dict[str, Any]] = [
    {"text": "x" * 2000},
    {"text": "\n" * 1000},
    {"numbers": [0.5] * 220},
    {"a": "é" * 400, "b": [True, False] * 60, "c": 1},
]


@pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=["msgpack", "json"])
@pytest.mark.parametrize("properties", _LONG, ids=["text", "escapes", "numbers", "mixed"])
async def test_a_page_is_cut_where_a_payload_ends_and_nothing_is_lost_or_repeated(
    world: World, codec: Codec, properties: dict[str, Any]
) -> None:
    server = await world.serve(chat())
    made = [(await server.create_room("chat", properties={**properties, "n": n})).id for n in range(100)]
    client = await world.raw(server, codec=codec)
    await client.sign_in()
    wish: dict[str, Any] = {"where": "", "limit": 100, "order_by": ["name", "properties.n desc", "properties.text"]}

    found: list[str] = []
    sizes: list[int] = []
    cursor = ""
    while not sizes or cursor:
        reply = await client.request("search", **wish, cursor=cursor)
        assert reply.problem is None
        page = msgspec.convert(reply.result, RoomPage)
        found += [info.id for info in page.rooms]
        sizes.append(len(page.rooms))
        cursor = page.cursor

    assert found == made[::-1]
    assert len(sizes) > 1
    assert min(sizes[:-1]) >= 20, "a page carries what it can"


# Slices


async def test_the_loop_has_a_turn_after_each_slice_of_a_search(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(search_slice_max=5))
    for _ in range(100):
        await server.create_room("chat")
    listings = server.rooms.index

    with Turns() as turns:
        page = await listings.search(Search(where="players > 0 OR phase = 'playing' OR name <> ''"), None)

    assert page == RoomPage([])
    assert turns.count >= 100 // 5


async def test_however_many_search_one_slice_is_looked_at_in_a_turn_of_the_loop(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(search_slice_max=5))
    for _ in range(50):
        await server.create_room("chat")
    listings = server.rooms.index
    nowhere = Search(where="NOT players >= 0 OR name <> ''")

    with Turns() as turns:
        await asyncio.gather(*(listings.search(nowhere, None) for _ in range(20)))

    assert turns.count >= 20 * 50 // 5


async def test_rooms_that_have_changed_are_caught_up_with_in_slices(world: World) -> None:
    server = await world.serve(chat())
    for _ in range(500):
        await server.create_room("chat")
    await server.rooms.index.search(Search(), None)

    for room in server.rooms:
        room.properties["level"] = 1
    with Turns() as turns:
        page = await server.rooms.index.search(Search(where="properties.level <> 1"), None)

    assert page.rooms == [], "all that had changed is found as it is"
    assert turns.count >= 10


async def test_a_search_that_looks_at_too_many_rooms_gives_a_short_page_and_goes_on_from_there(world: World) -> None:
    limits = Limits(search_slice_max=5, search_examined_max=20)
    server = await world.serve(chat(), limits=generous(limits))
    session = await world.connect(server)
    made = [(await session.create("chat", name="x" if n % 12 == 11 else "")).id for n in range(60)]

    pages = await _all_pages(session, where="name <> ''")

    assert [info.id for page in pages for info in page] == made[11::12]
    assert [len(page) for page in pages] == [1, 2, 2]


@pytest.mark.parametrize("seed", range(20))
@in_virtual_time
async def test_what_stays_as_it_is_is_found_once_while_others_change_and_end_between_two_slices(seed: int) -> None:
    dice = Random(seed)
    limits = patient(search_slice_max=3, payload_bytes_max=24_000)
    async with served(arena(), limits=limits) as server:
        session = await server.connect("ada")
        rooms = [
            await server.create_room("arena", properties={"level": dice.randrange(5), "text": "x" * 1900})
            for _ in range(40)
        ]
        stays = {room.id for room in rooms[::2]}
        restless = rooms[1::2]

        disturbing = asyncio.create_task(_disturb(server, restless, dice))
        pages = await _all_pages(session, order_by="properties.level desc", limit=dice.choice((7, 40)))
        disturbing.cancel()

        found = [info.id for page in pages for info in page if info.id in stays]
        assert sorted(found) == sorted(stays)
        levels = [info.properties["level"] for page in pages for info in page if info.id in stays]
        assert levels == sorted(levels, reverse=True)


async def _disturb(server: MemoryServer, rooms: list[Room[Any]], dice: Random) -> None:
    while True:
        for _ in range(dice.randrange(3)):
            await asyncio.sleep(0)
        room = dice.choice(rooms)
        if dice.random() < 0.2:
            server.machine.call(room.close)
        elif not context_of(room).is_closing:
            server.machine.call(room.properties.__setitem__, "level", dice.randrange(5))
        await asyncio.sleep(0)
