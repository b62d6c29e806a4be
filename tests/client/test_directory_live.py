"""The directory of a real server, through a client's session."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import (
    Auth,
    ClientRoom,
    ClientSession,
    Invalid,
    NotFound,
    RoomFull,
    RoomLocked,
    Server,
    WebSocket,
)
from holdfast.client.subscriptions import RoomWatch
from holdfast.core.errors import Conflict, NotAllowed, WrongPassword
from holdfast.core.messages import HostChanged, RoomUpdated
from holdfast.schemas.room import RoomsChanged
from tests.client.game import connect, soon, until_back
from tests.client.hall import serve_halls


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve_halls() as server:
        yield server


@pytest.fixture
async def ada(server: Server) -> AsyncIterator[ClientSession]:
    async with connect(server) as session:
        yield session


@pytest.fixture
async def bob(server: Server) -> AsyncIterator[ClientSession]:
    async with connect(server) as session:
        yield session


@pytest.fixture
async def cleo(server: Server) -> AsyncIterator[ClientSession]:
    async with connect(server, codec="holdfast.v1.json") as session:
        yield session


# Create, find, join


async def test_a_room_is_made_as_it_was_wished_for(ada: ClientSession) -> None:
    made = await ada.create("hall", properties={"map": "cave", "tags": ["a", "b"]}, max_players=1, name="Ada's")

    assert (made.kind, made.name, made.max_players, made.creator) == ("hall", "Ada's", 1, ada.player_id)
    assert made.properties == {"map": "cave", "tags": ["a", "b"]}
    assert (made.open_seats, made.visibility, made.has_password) == (1, "public", False)


async def test_the_same_key_makes_one_room(ada: ClientSession) -> None:
    first = await ada.create("hall", name="x", idempotency_key="k")
    again = await ada.create("hall", name="x", idempotency_key="k")

    assert again.id == first.id
    with pytest.raises(Conflict):
        await ada.create("hall", name="y", idempotency_key="k")


async def test_rooms_are_found_by_what_is_known_of_them(ada: ClientSession) -> None:
    for level in (3, 1, 2):
        await ada.create("hall", properties={"level": level})

    found = await ada.search("hall", where="properties.level >= 2", order_by="properties.level desc")

    assert [info.properties["level"] for info in found] == [3, 2]
    assert found.cursor == ""
    with pytest.raises(Invalid):
        await ada.search(where="properties.level >=")


async def test_pages_follow_each_other_to_the_last(ada: ClientSession) -> None:
    made = [(await ada.create("hall")).id for _ in range(5)]

    pages = [await ada.search("hall", limit=2)]
    while pages[-1].cursor:
        pages.append(await ada.search("hall", limit=2, cursor=pages[-1].cursor))

    assert [len(page) for page in pages] == [2, 2, 1]
    assert [info.id for page in pages for info in page] == made
    assert [info.id async for info in ada.search_all("hall")] == made


async def test_all_pages_are_more_than_one_page_can_hold(ada: ClientSession) -> None:
    made = {(await ada.create("hall", properties={"number": number})).id for number in range(130)}

    assert {info.id async for info in ada.search_all("hall", order_by="properties.number")} == made


async def test_a_private_room_is_joined_by_its_code_and_its_password(ada: ClientSession, bob: ClientSession) -> None:
    made = await ada.create("hall", visibility="private", password="sesame")

    assert await bob.search("hall") == []
    assert made.has_password
    with pytest.raises(WrongPassword):
        await bob.join(code=made.code)
    with pytest.raises(WrongPassword):
        await bob.join(made.id, password="guessed")
    room = await bob.join(code=made.code.lower(), password="sesame")
    assert room.id == made.id
    assert room.info is not None
    assert (room.info.code, room.host) == (made.code, bob.player_id)


async def test_join_or_create_joins_what_suits_and_else_creates(ada: ClientSession, bob: ClientSession) -> None:
    wish: dict[str, Any] = {"where": "properties.map = 'cave'", "properties": {"map": "cave"}}
    await ada.create("hall", properties={"map": "castle"})
    first = await ada.join_or_create("hall", **wish)

    second = await bob.join_or_create("hall", **wish)

    assert second.id == first.id
    assert second.info is not None
    assert second.info.properties == {"map": "cave"}


# Parties and lines


async def test_seats_are_kept_for_a_party(ada: ClientSession, bob: ClientSession, cleo: ClientSession) -> None:
    made = await ada.create("hall")

    kept = await ada.reserve(made.id, players=[ada.player_id, bob.player_id], ttl_s=30)

    assert (kept.room, kept.players) == (made.id, [ada.player_id, bob.player_id])
    assert 0 < kept.expires_in_s <= 30
    with pytest.raises(RoomFull):
        await cleo.join(made.id)
    await ada.release(made.id, bob.player_id)
    assert (await cleo.join(made.id)).id == made.id
    assert (await ada.join(made.id)).id == made.id
    with pytest.raises(RoomFull):
        await bob.join(made.id)


async def full_room(*players: ClientSession) -> list[ClientRoom]:
    made = await players[0].create("hall")
    return [await player.join(made.id) for player in players]


async def test_who_waits_for_a_seat_gets_the_seat_that_is_freed(
    ada: ClientSession, bob: ClientSession, cleo: ClientSession
) -> None:
    rooms = await full_room(ada, bob)
    stands: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(cleo.wait_for_seat(rooms[0].id, on_position=stands.set_result))

    assert await soon(stands) == 1
    await rooms[0].leave()

    assert await soon(waiting) is cleo.room


async def test_who_drops_in_the_waitlist_still_gets_the_seat(
    ada: ClientSession, bob: ClientSession, cleo: ClientSession
) -> None:
    rooms = await full_room(ada, bob)
    stands: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(cleo.wait_for_seat(rooms[0].id, on_position=stands.set_result))
    await soon(stands)

    # The seat is offered while nobody is there to hear it.
    cleo.cut()
    await rooms[1].leave()

    assert (await soon(waiting)).id == rooms[0].id


async def test_who_gives_up_waiting_is_not_offered_the_seat(
    ada: ClientSession, bob: ClientSession, cleo: ClientSession
) -> None:
    rooms = await full_room(ada, bob)
    with pytest.raises(TimeoutError):
        await cleo.wait_for_seat(rooms[0].id, timeout_s=0.05)
    # Carried out after what was said in the line.
    await cleo.my_rooms()
    await rooms[0].leave()

    (found,) = await ada.search("hall")
    assert found.open_seats == 1


# Watching


async def news(watch: RoomWatch, *room_ids: str) -> RoomsChanged:
    """What is told, until it tells of these rooms."""
    changed: dict[str, Any] = {}
    removed: set[str] = set()
    while not set(room_ids) <= changed.keys() | removed:
        more = await soon(watch.receive())
        changed |= {info.id: info for info in more.changed}
        removed |= set(more.removed)
    return RoomsChanged(list(changed.values()), list(removed))


async def test_a_watch_shows_rooms_as_they_come_change_and_go(ada: ClientSession, bob: ClientSession) -> None:
    before = await ada.create("hall", max_players=1)
    async with bob.watch("hall") as watch:
        assert [info.id for info in (await watch.receive()).changed] == [before.id]

        made = await ada.create("hall", name="new")
        assert [info.name for info in (await news(watch, made.id)).changed] == ["new"]
        await ada.join(before.id)

        assert (await news(watch, before.id)).removed == [before.id]
        assert list(watch.rooms) == [made.id]


async def test_a_watch_catches_up_after_a_drop(ada: ClientSession, bob: ClientSession) -> None:
    gone = await ada.create("hall", max_players=1)
    async with bob.watch("hall") as watch:
        await watch.receive()

        bob.cut()
        await ada.join(gone.id)
        made = await ada.create("hall")

        told = await news(watch, gone.id, made.id)
        assert (told.removed, [info.id for info in told.changed]) == ([gone.id], [made.id])
        later = await ada.create("hall")
        assert [info.id for info in (await news(watch, later.id)).changed] == [later.id]


async def test_a_watch_goes_on_when_the_server_restarts_and_the_session_is_reset() -> None:
    secret = bytes(32)
    async with serve_halls(secret=secret) as server:
        port = server.addresses["websocket"][1]
        session = await connect(server)
        old = await session.create("hall")
        watch = await session.watch("hall")
        assert [info.id for info in (await watch.receive()).changed] == [old.id]

    async with serve_halls(secret=secret, listen=[WebSocket(port=port)]) as server:
        assert (await soon(watch.receive())).removed == [old.id]
        made = await server.create_room("hall")

        assert [info.id for info in (await news(watch, made.id)).changed] == [made.id]
        assert session.outcome is not None
        assert session.outcome.kind == "reset"
        await session.close()


async def test_a_watch_that_is_closed_makes_room_for_another(ada: ClientSession) -> None:
    for _ in range(10):
        async with ada.watch("hall") as watch:
            await watch.receive()


# Mine


async def test_a_player_finds_the_seat_from_another_device(server: Server, ada: ClientSession) -> None:
    room = (await full_room(ada))[0]
    async with connect(server, auth=Auth("guest", ada.credential)) as phone:
        assert [info.id for info in await phone.my_rooms()] == [room.id]
        assert (await phone.rejoin()).id == room.id


async def test_who_has_no_seat_has_nothing_to_come_back_to(ada: ClientSession) -> None:
    assert await ada.my_rooms() == []
    with pytest.raises(NotFound):
        await ada.rejoin()


# Updates


async def test_a_change_is_told_to_everybody_in_the_room(ada: ClientSession, bob: ClientSession) -> None:
    mine, bobs = await full_room(ada, bob)
    assert mine.info is not None
    version = mine.info.version

    shown = await mine.update(name="new", set={"level": 2}, if_version=version)

    assert (shown.name, shown.properties) == ("new", {"level": 2})
    # The first host of the room may have been told before.
    while (updated := await told(bobs, RoomUpdated)).room.version == version:
        pass
    assert updated.room.name == "new"
    assert bobs.info == updated.room
    with pytest.raises(Conflict):
        await mine.update(name="newer", if_version=version)
    with pytest.raises(NotAllowed):
        await bobs.update(name="Bob's")


async def test_the_host_can_pass_the_role_on(ada: ClientSession, bob: ClientSession) -> None:
    mine, bobs = await full_room(ada, bob)
    assert mine.host == ada.player_id

    await ada.update_room(mine.id, host=bob.player_id)

    while (await told(bobs, HostChanged)).player != bob.player_id:
        pass
    assert bobs.host == bob.player_id


async def test_a_locked_room_takes_nobody(ada: ClientSession, bob: ClientSession) -> None:
    made = await ada.create("hall")
    await ada.update_room(made.id, locked=True)

    with pytest.raises(RoomLocked):
        await bob.join(made.id)
    await ada.update_room(made.id, locked=False)
    assert (await bob.join(made.id)).id == made.id


async def told(room: ClientRoom, kind: type[Any]) -> Any:
    while not isinstance(message := await soon(room.receive()), kind):
        pass
    return message


# Placements


async def test_a_placement_makes_a_room_with_seats_for_the_party(ada: ClientSession, bob: ClientSession) -> None:
    placement = await ada.place("here", "hall", players=[ada.player_id, bob.player_id], id="match-1", name="match")

    info = await soon(placement.done())

    assert (info.status, info.players) == ("fulfilled", [ada.player_id, bob.player_id])
    assert info.room is not None
    assert (info.room.name, info.room.open_seats) == ("match", 0)
    assert (await bob.join(info.room.id)).id == info.room.id
    again = await ada.place("here", "hall", players=[ada.player_id, bob.player_id], id="match-1", name="match")
    assert again.info.room is not None
    assert again.info.room.id == info.room.id


async def test_a_placement_that_waits_is_stopped_also_after_a_drop(ada: ClientSession) -> None:
    placement = await ada.place("moon", "hall")
    done = asyncio.create_task(placement.done())
    await until_back(ada, ada.cut)

    stopped = await placement.stop()

    assert stopped.status == "cancelled"
    assert await soon(done) == stopped


async def test_a_placement_that_ended_during_a_drop_is_done(server: Server, ada: ClientSession) -> None:
    placement = await ada.place("moon", "hall", id="p")
    done = asyncio.create_task(placement.done())
    async with connect(server, auth=Auth("guest", ada.credential)) as phone:
        phones = await phone.place("moon", "hall", id="p")
        ada.cut()
        await phones.stop()

        assert (await soon(done)).status == "cancelled"


async def test_a_queue_that_nobody_knows_is_refused(ada: ClientSession) -> None:
    with pytest.raises(NotFound):
        await ada.place("mars", "hall")
