"""Taking a seat: by id, by code, with a password, with the game's approval, and coming back to it."""

import pytest

from holdfast import NotFound, Player, PlayerData, Refused, Room, RoomLocked, SeatLeft, Throttled
from holdfast.core.errors import AlreadySeated, Duplicate, Invalid, WrongPassword
from holdfast.schemas.room import RoomInfo
from holdfast.testing import FaultyStore
from tests.server.directory.seats import (
    OBSTACLES,
    a_room,
    arena,
    call,
    connected,
    keep_others_out,
    patient,
    seats,
    served,
    told,
)
from tests.server.durability.bench import a_moment, in_virtual_time, until
from tests.server.world import World, chat

# By id, by code


async def test_a_room_is_joined_by_its_id_or_by_its_code_however_that_is_typed(world: World) -> None:
    server = await world.serve(chat())
    host = await world.connect(server)
    room = await host.create("chat", visibility="private")
    code = room.code

    for typed in (code, code.lower(), f" {code[:3]} {code[3:]} ", f"{code[:2]}-{code[2:4]}-{code[4:]}".lower()):
        guest = await world.connect(server)
        seat = await guest.join(code=typed)
        assert seat.id == room.id
        await seat.leave()
    by_id = await (await world.connect(server)).join(room.id)

    assert by_id.id == room.id


async def test_a_room_is_named_in_one_way(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.create("chat")

    with pytest.raises(Invalid):
        await session.join()
    with pytest.raises(Invalid):
        await session.join(room.id, code=room.code)
    with pytest.raises(NotFound):
        await session.join("nowhere")
    with pytest.raises(NotFound):
        await session.join(code="222222")

    assert (await session.join(code=room.code)).id == room.id


@in_virtual_time
async def test_a_code_is_forgotten_with_its_room() -> None:
    async with served(arena()) as server:
        (ada,) = await connected(server, "ada")
        info = await ada.create("arena")
        room = server.rooms.get(info.id)
        assert room is not None

        server.machine.call(room.close)

        with pytest.raises(NotFound):
            await ada.join(code=info.code)


@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_a_room_that_closes_when_somebody_joins_or_updates_it_answers_them(durability: str) -> None:
    class Brief(Room[PlayerData]):
        kind = "brief"

        def on_join(self, player: Player[PlayerData]) -> None:
            if player.id != "host":
                self.close()

        def on_update(self) -> None:
            self.close()

    Brief.durability = durability  # type: ignore[assignment]
    async with served(Brief, store=FaultyStore()) as server:
        host, ada = await connected(server, "host", "ada")

        joined = await ada.join((await host.create("brief")).id)
        made = await ada.join_or_create("brief")
        seat = await host.join_or_create("brief")
        updated = await seat.update(name="new")

        await until(lambda: all(room.left is not None for room in (joined, made, seat)))
        assert updated.status == "ended"


# With a password


async def test_a_room_with_a_password_is_for_those_who_know_it(world: World) -> None:
    server = await world.serve(chat())
    host, guest = await world.connect(server), await world.connect(server)
    room = await host.create("chat", password="swordfish")

    for wrong in ("", "Swordfish", "swordfish "):
        with pytest.raises(WrongPassword):
            await guest.join(room.id, password=wrong)
        with pytest.raises(WrongPassword):
            await guest.reserve(room.id, password=wrong)
    seat = await guest.join(room.id, password="swordfish")

    assert seat.id == room.id


@in_virtual_time
async def test_who_guesses_too_often_is_refused_even_with_the_right_password() -> None:
    async with served(arena(), limits=patient(wrong_guesses_max=3)) as server:
        secret, plain = await a_room(server, "ada", password="swordfish"), await a_room(server)
        eve, ada = await connected(server, "eve", "ada")
        await ada.reserve(secret.id, players=["eve"], password="swordfish")
        await ada.release(secret.id, ["eve"])
        # To say nothing is to ask, not to guess.
        for _ in range(5):
            with pytest.raises(WrongPassword):
                await eve.join(secret.id)
        for guess in "abc":
            with pytest.raises(WrongPassword):
                await eve.join(secret.id, password=guess)

        for guess in ("d", "swordfish"):
            with pytest.raises(Throttled):
                await eve.join(secret.id, password=guess)
        with pytest.raises(Throttled):
            await eve.reserve(secret.id, password="swordfish")

        await ada.reserve(secret.id, players=["eve"], password="swordfish")
        await (await eve.join(secret.id)).leave()
        assert (await eve.join(plain.id)).id == plain.id, "a room without a password is not to be guessed"


@in_virtual_time
async def test_codes_are_guessed_no_oftener_than_passwords() -> None:
    async with served(arena(), limits=patient(wrong_guesses_max=3)) as server:
        ada, eve = await connected(server, "ada", "eve")
        room = await ada.create("arena", visibility="private", password="swordfish")
        with pytest.raises(WrongPassword):
            await eve.join(room.id, password="a")
        with pytest.raises(NotFound):
            await eve.join(code="222222")
        with pytest.raises(NotFound):
            await eve.reserve(code="333333")

        for guess in (room.code, "444444"):
            with pytest.raises(Throttled):
                await eve.join(code=guess)
        with pytest.raises(Throttled):
            await eve.join(room.id, password="swordfish")
        # An id is not to be guessed.
        with pytest.raises(NotFound):
            await eve.join("nowhere")
        assert (await ada.join(code=room.code, password="swordfish")).id == room.id


@in_virtual_time
async def test_members_need_no_password_to_come_back() -> None:
    async with served(arena()) as server:
        room = await a_room(server, password="swordfish")
        phone, laptop = await connected(server, "ada", "ada")
        await phone.join(room.id, password="swordfish")
        await phone.reserve(room.id, players=["bob"])

        await laptop.join(room.id)

        assert seats(server, room.id) == {"ada": "taken", "bob": "reserved"}


# Coming back


@in_virtual_time
async def test_a_seat_goes_from_reserved_to_taken_to_held_and_back_and_is_freed_in_the_end() -> None:
    async with served(arena(grace_s=10.0)) as server:
        room = await a_room(server, "ada")
        ada, bob = await connected(server, "ada", "bob")
        await bob.join(room.id)
        await ada.reserve(room.id)
        await ada.join(room.id)

        server.link(ada).cut()
        await until(lambda: seats(server, room.id)["ada"] == "held")
        await until(lambda: seats(server, room.id)["ada"] == "taken")
        await ada.close()

        await until(lambda: "ada" not in seats(server, room.id))
        assert await told(server, "ada") == ["reserved", "taken", "held", "taken", "freed"]


@pytest.mark.parametrize("obstacle", OBSTACLES)
@in_virtual_time
async def test_a_returning_player_needs_no_new_seat(obstacle: str) -> None:
    async with served(arena(waiting_max=1)) as server:
        ada, bob, eve = await connected(server, "ada", "bob", "eve")
        room = await ada.create("arena")
        await ada.join(room.id)
        await keep_others_out(obstacle, ada, room.id, bob)
        server.link(ada).cut()
        await a_moment(0.01)

        with pytest.raises(Refused):
            await eve.join(room.id)
        await until(lambda: seats(server, room.id)["ada"] == "taken")
        (laptop,) = await connected(server, "ada")
        await laptop.join(room.id)

        assert seats(server, room.id)["ada"] == "taken"
        assert laptop.room is not None


@in_virtual_time
async def test_a_takeover_leaves_the_former_device_without_its_seat() -> None:
    async with served(arena(max_players=1)) as server:
        room = await a_room(server)
        phone, laptop = await connected(server, "ada", "ada")
        before = await phone.join(room.id)

        after = await laptop.join(room.id)
        await until(lambda: before.left is not None)

        assert before.left is not None
        assert before.left == SeatLeft("superseded", before.left.message)
        assert after.left is None
        assert seats(server, room.id) == {"ada": "taken"}
        assert await told(server) == ["ada taken", "ada held", "ada taken"]


@in_virtual_time
async def test_a_room_that_rejects_doubles_gives_a_held_seat_back_and_no_other() -> None:
    async with served(arena(duplicate="reject", max_players=1)) as server:
        room = await a_room(server)
        phone = await call(server, "ada")
        await phone.join(room.id)
        (laptop,) = await connected(server, "ada")

        with pytest.raises(Duplicate):
            await laptop.join(room.id)
        await phone.client.close()
        await a_moment()
        await laptop.join(room.id)

        assert seats(server, room.id) == {"ada": "taken"}


@in_virtual_time
async def test_a_session_has_one_seat_and_a_player_may_have_several() -> None:
    async with served(arena()) as server:
        one, two = await a_room(server), await a_room(server)
        phone, laptop = await connected(server, "ada", "ada")
        await phone.join(one.id)

        with pytest.raises(AlreadySeated):
            await phone.join(two.id)
        with pytest.raises(AlreadySeated):
            await phone.join_or_create("arena")
        await laptop.join(two.id)

        assert seats(server, one.id) == seats(server, two.id) == {"ada": "taken"}


@in_virtual_time
async def test_a_locked_room_says_so() -> None:
    async with served(arena()) as server:
        room = await a_room(server)
        ada = await call(server, "ada")
        server.machine.call(room.lock)

        with pytest.raises(RoomLocked):
            await ada.join(room.id)
        server.machine.call(room.unlock)

        assert (await ada.ask("join", RoomInfo, room=room.id)).players == 1
