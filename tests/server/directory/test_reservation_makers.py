"""Reservations belong to somebody: who may make them, who may end them, and what ends them."""

import pytest

from holdfast import Message, Player, PlayerData, Queue, Room, on
from holdfast.core.errors import NotAllowed
from holdfast.core.listed_room import open_seats
from holdfast.schemas.requests import Reserve
from holdfast.server.durability.recovery import Pace
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.directory.seats import a_room, arena, call, connected, guarded, patient, seats, served
from tests.server.durability.bench import a_moment, in_virtual_time, until

# Who may


@in_virtual_time
async def test_a_guest_without_a_seat_locks_no_rooms() -> None:
    async with served(arena(max_players=4)) as server:
        rooms = [await a_room(server) for _ in range(8)]
        eve, ada = await connected(server, "eve", "ada")

        for room in rooms:
            with pytest.raises(NotAllowed, match="join first, then reserve"):
                await eve.reserve(room.id, players=["x1", "x2", "x3", "x4"], ttl_s=3600.0)
            with pytest.raises(NotAllowed):
                await eve.reserve(room.id)
        await eve.close()

        assert [seats(server, room.id) for room in rooms] == [{}] * 8
        await ada.join(rooms[0].id)


class Crown(Message):
    """Make a player the host."""

    player: str


class Court(Room[PlayerData]):
    max_players = 4

    @on(Crown)
    def crowned(self, player: Player[PlayerData], crown: Crown) -> None:
        self.name_host(self.player(crown.player))


@pytest.mark.parametrize("maker", ["member", "creator", "host", "operator"])
@in_virtual_time
async def test_those_to_whom_the_room_is_something_may_reserve_in_it(maker: str) -> None:
    async with served(arena(Court)) as server:
        room = await a_room(server, "cleo")
        ada, cleo, dan = await connected(server, "ada", "cleo", "dan")
        seat = await ada.join(room.id)

        match maker:
            case "member":
                await ada.reserve(room.id, players=["bob"])
            case "creator":
                await cleo.reserve(room.id, players=["bob"])
            case "host":
                await dan.join(room.id)
                await seat.send(Crown("dan"))
                await until(lambda: room.host is not None)
                await dan.reserve(room.id, players=["bob"])
            case _:
                await server.operate.rooms.reserve(Reserve(room.id, players=["bob"]))

        assert seats(server, room.id)["bob"] == "reserved"


@in_virtual_time
async def test_whoever_was_invited_cannot_invite_others_or_keep_the_seat_for_longer() -> None:
    async with served(arena(max_players=4)) as server:
        ada, bob = await connected(server, "ada", "bob")
        room = await ada.create("arena")
        await ada.reserve(room.id, players=["bob"], ttl_s=30.0)

        for players in ([], ["bob"], ["cleo"]):
            with pytest.raises(NotAllowed):
                await bob.reserve(room.id, players=players, ttl_s=3600.0)
        await a_moment(31.0)

        assert seats(server, room.id) == {}


@pytest.mark.parametrize("remover", ["creator", "host"])
@in_virtual_time
async def test_creator_and_host_may_release_what_others_have_reserved(remover: str) -> None:
    async with served(arena(Court)) as server:
        room = await a_room(server, "cleo")
        ada, cleo, eve = await connected(server, "ada", "cleo", "eve")
        seat = await ada.join(room.id)
        await seat.send(Crown("ada"))
        await until(lambda: room.host is not None)
        await eve.join(room.id)
        await eve.reserve(room.id, players=["x1", "x2"], ttl_s=3600.0)

        await (cleo if remover == "creator" else ada).release(room.id, ["x1", "x2"])

        assert seats(server, room.id) == {"ada": "taken", "eve": "taken"}


# What ends them


@pytest.mark.parametrize("end", ["bye", "grace", "left", "kicked"])
@in_virtual_time
async def test_they_end_with_their_makers_session_or_seat(end: str) -> None:
    async with served(arena(max_players=4, grace_s=10.0)) as server:
        room = await a_room(server)
        ada, eve = await call(server, "ada"), await call(server, "eve")
        await ada.join(room.id)
        await eve.join(room.id)
        await eve.ask("reserve", object, room=room.id, players=["x1", "x2"], ttl_s=3600.0)
        player = room.player("eve")
        assert player is not None

        match end:
            case "bye":
                server.machine.call(player.session.end)
            case "grace":
                await eve.client.close()
                await a_moment(9.0)
                assert seats(server, room.id) == {"ada": "taken", "eve": "held", "x1": "reserved", "x2": "reserved"}
            case "left":
                await eve.tell("leave")
            case _:
                server.machine.call(player.kick)
        await a_moment(1.5)

        assert seats(server, room.id) == {"ada": "taken"}
        assert open_seats(room) == 3


@in_virtual_time
async def test_the_creators_last_until_the_last_of_their_sessions_has_ended() -> None:
    async with served(arena(max_players=4), grace_s=10.0) as server:
        room = await a_room(server, "ada")
        phone, laptop = await call(server, "ada"), await call(server, "ada")
        await phone.join(room.id)
        await phone.ask("reserve", object, room=room.id, players=["bob"], ttl_s=3600.0)

        await phone.tell("leave")
        await phone.client.close()
        await a_moment(11.0)
        assert seats(server, room.id) == {"bob": "reserved"}, "she made the room, and is here with another session"
        await laptop.client.close()
        await a_moment(11.0)

        assert seats(server, room.id) == {}


@in_virtual_time
async def test_a_maker_whose_seat_another_session_of_theirs_takes_over_keeps_them() -> None:
    async with served(arena(max_players=4)) as server:
        room = await a_room(server)
        phone, laptop = await connected(server, "ada", "ada")
        await phone.join(room.id)
        await phone.reserve(room.id, players=["bob"])

        await laptop.join(room.id)

        assert seats(server, room.id) == {"ada": "taken", "bob": "reserved"}


@in_virtual_time
async def test_a_maker_who_drops_from_a_room_that_holds_no_seats_keeps_them_for_the_grace() -> None:
    async with served(arena(max_players=4, disconnect="hard", grace_s=10.0)) as server:
        room = await a_room(server)
        cleo, ada = await call(server, "cleo"), await call(server, "ada")
        await cleo.join(room.id)
        await ada.join(room.id)
        await ada.ask("reserve", object, room=room.id, players=["bob"])

        await ada.client.close()
        await a_moment(5.0)
        assert seats(server, room.id) == {"cleo": "taken", "bob": "reserved"}
        await a_moment(6.0)

        assert seats(server, room.id) == {"cleo": "taken"}


@in_virtual_time
async def test_a_quick_joiner_who_goes_before_the_room_is_made_leaves_no_seat_reserved() -> None:
    class Slow(Room[PlayerData]):
        async def on_create(self, config: dict[str, object]) -> None:
            await a_moment(5.0)

    async with served(arena(Slow, max_players=2), grace_s=1.0) as server:
        ada, eve = await call(server, "ada"), await call(server, "eve")
        ada.client.ask("join_or_create", kind="arena")
        eve.client.ask("join_or_create", kind="arena")
        await a_moment(1.0)

        await eve.client.close()
        await until(lambda: len(server.rooms), within_s=10.0)
        await a_moment()

        (room,) = server.rooms
        assert seats(server, room.id) == {"ada": "taken"}


@pytest.mark.parametrize("end", ["session", "seat"])
@in_virtual_time
async def test_they_end_though_their_player_was_on_the_way_in_when_the_maker_went(end: str) -> None:
    kind = guarded(max_players=4, unloved={"bob"})
    kind.door.set()
    async with served(kind) as server:
        room = await a_room(server)
        cleo, eve, bob = await call(server, "cleo"), await call(server, "eve"), await call(server, "bob")
        await cleo.join(room.id)
        await eve.join(room.id)
        await eve.ask("reserve", object, room=room.id, players=["bob"], ttl_s=3600.0)
        kind.door.clear()
        bob.client.ask("join", room=room.id)
        await until(lambda: "bob" in kind.asked)

        if end == "seat":
            await eve.tell("leave")
        else:
            (session,) = server.sessions.of_player("eve")
            server.machine.call(session.end)
        kind.door.set()
        await a_moment(1.0)

        assert seats(server, room.id) == {"cleo": "taken"}


# Placements


@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_a_placements_seats_outlive_the_session_that_asked_for_it(durability: str) -> None:
    queue = Queue("anywhere", ("*",), timeout_s=30.0)
    kind = arena(max_players=3, durability=durability)
    async with served(kind, queues=[queue], store=FaultyStore(), grace_s=5.0) as server:
        ada, bob = await connected(server, "ada", "bob")
        info = (await (await ada.place("anywhere", "arena", players=["ada", "bob"])).done()).room
        assert info is not None

        await ada.close()
        await a_moment(1.0)
        if durability == "commit":
            server.crash()
            await server.start()
            await a_moment(10.0)

        assert seats(server, info.id) == {"ada": "reserved", "bob": "reserved"}
        await bob.join(info.id)


# Rooms that nobody has joined


@in_virtual_time
async def test_a_players_reservations_and_attempts_do_not_keep_an_unjoined_room() -> None:
    async with served(arena(max_players=4), limits=patient(unjoined_s=60.0)) as server:
        (ada,) = await connected(server, "ada")
        room = await ada.create("arena")

        for _ in range(5):
            await ada.reserve(room.id, players=["x1", "x2"], ttl_s=3600.0)
            await a_moment(11.0)
        assert len(server.rooms) == 1
        await a_moment(6.0)

        assert len(server.rooms) == 0


@in_virtual_time
async def test_a_placement_keeps_an_unjoined_room_for_as_long_as_its_seats_are_promised() -> None:
    queue = Queue("anywhere", ("*",), timeout_s=30.0)
    kind = arena(max_players=4, reservation_s=120.0)
    async with served(kind, queues=[queue], limits=patient(unjoined_s=60.0)) as server:
        (ada,) = await connected(server, "ada")
        await (await ada.place("anywhere", "arena", players=["ada", "bob"])).done()

        await a_moment(115.0)
        assert len(server.rooms) == 1
        await a_moment(10.0)

        assert len(server.rooms) == 0


# A crash


async def _restarted(server: MemoryServer) -> None:
    server.crash()
    await server.start()
    await a_moment(1.0)


@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@pytest.mark.parametrize("comes_back", [True, False])
@in_virtual_time
async def test_after_a_crash_a_creator_without_a_seat_has_the_grace_to_sign_in_again(
    recovery: Pace, comes_back: bool
) -> None:
    kind = arena(max_players=4, durability="commit")
    async with served(kind, store=FaultyStore(), recovery=recovery, grace_s=20.0) as server:
        room = await a_room(server, "ada")
        ada = await call(server, "ada")
        await ada.ask("reserve", object, room=room.id, players=["bob"], ttl_s=3600.0)

        await _restarted(server)
        assert seats(server, room.id) == {"bob": "reserved"}
        if comes_back:
            await call(server, "ada")
        await a_moment(21.0)

        assert seats(server, room.id) == ({"bob": "reserved"} if comes_back else {})


@in_virtual_time
async def test_after_a_crash_a_makers_reservations_end_with_the_grace_of_the_seat() -> None:
    kind = arena(max_players=4, durability="commit", grace_s=60.0)
    async with served(kind, store=FaultyStore(), grace_s=5.0) as server:
        room = await a_room(server)
        ada, zoe = await call(server, "ada"), await connected(server, "zoe")
        await zoe[0].join(room.id)
        await ada.join(room.id)
        await ada.ask("reserve", object, room=room.id, players=["bob"], ttl_s=3600.0)

        await _restarted(server)
        await a_moment(50.0)
        assert seats(server, room.id) == {"ada": "held", "bob": "reserved", "zoe": "taken"}
        await a_moment(10.0)

        assert seats(server, room.id) == {"zoe": "taken"}
