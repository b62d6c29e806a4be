"""Roles: who may send what, make which rooms and sit in them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from holdfast import Message, MessageRefused, NotAllowed, Player, PlayerData, Queue, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.core.room import context_of, room_handlers
from holdfast.schemas.frames import Ack, Data, Latest
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import ReservationInfo, WaitInfo
from holdfast.schemas.requests import Create
from holdfast.schemas.room import RoomInfo, RoomPage
from holdfast.testing import MemoryServer
from tests.server.access.kit import Hall, Said, Say, back, hall, of_hall, seated, seats, serving, sign_in
from tests.server.directory.seats import Caller
from tests.server.durability.bench import a_moment, in_virtual_time


class Smite(Message):
    who: str


class Court(Hall):
    """Everybody may speak, a game master may smite."""

    kind = "hall"

    @on(Smite, role="gm")
    def smitten(self, player: Player[PlayerData], smite: Smite) -> None:
        self.broadcast(Said(f"{player.id} smites {smite.who}: {sorted(player.roles)}"))


def court(**settings: Any) -> type[Court]:
    return type("Court", (Court,), {"kind": "hall", "durability": "memory", **settings})


async def _heard(caller: Caller) -> Said | MessageRefused:
    """The next message of the room."""
    data = await caller.client.hear(Data)
    kind = MessageRefused if data.type == MessageRefused.wire_name else Said
    heard = MSGPACK.body_decoder(kind).decode(data.body)
    assert isinstance(heard, Said | MessageRefused)
    return heard


# Messages


@in_virtual_time
async def test_who_has_the_role_may_send_the_message_and_the_room_sees_the_roles() -> None:
    async with serving(court()) as server:
        gm = await seated(server, "gm+gm+vip")

        gm.client.send(1, Smite("eve"))

        assert await _heard(gm) == Said("gm smites eve: ['gm', 'vip']")


@in_virtual_time
async def test_who_lacks_the_role_is_refused_in_the_stream_and_in_its_place() -> None:
    async with serving(court()) as server:
        eve = await seated(server, "eve+vip")

        eve.client.send(1, Say("before"))
        eve.client.send(2, Smite("gm"))
        eve.client.send(3, Say("after"))

        assert await _heard(eve) == Said("before")
        assert await _heard(eve) == MessageRefused(2, "smite", "not_allowed", "'smite' requires the role 'gm'")
        assert await _heard(eve) == Said("after")
        assert server.counters.messages_refused == 1
        assert server.counters.messages_applied == 3


@pytest.mark.parametrize("badge", ["gm+gm", "eve"])
@in_virtual_time
async def test_a_body_that_does_not_fit_is_refused_to_those_who_may_send_it(badge: str) -> None:
    async with serving(court()) as server:
        caller = await seated(server, badge)

        caller.client.say(Data(1, 1, 0, "smite", Raw(MSGPACK.encode({"who": 5}))))

        refused = await _heard(caller)
        assert isinstance(refused, MessageRefused)
        assert refused.code == ("invalid" if badge == "gm+gm" else "not_allowed")


@in_virtual_time
async def test_a_message_that_nobody_handles_is_unknown_as_before() -> None:
    async with serving(court()) as server:
        caller = await seated(server, "gm+gm")

        caller.client.say(Data(1, 1, 0, "dance", Raw(MSGPACK.encode({}))))

        refused = await _heard(caller)
        assert isinstance(refused, MessageRefused)
        assert refused.code == "not_found"


@in_virtual_time
async def test_an_unreliable_message_without_the_role_is_dropped_and_counted() -> None:
    async with serving(court()) as server:
        gm, eve = await seated(server, "gm+gm"), await seated(server, "eve")

        eve.client.say(Latest(1, "smite", Raw(MSGPACK.encode(Smite("gm")))))
        gm.client.say(Latest(1, "smite", Raw(MSGPACK.encode(Smite("eve")))))
        eve.client.say(Latest(1, "dance", Raw(MSGPACK.encode({}))))

        assert await _heard(eve) == Said("gm smites eve: ['gm']")
        await a_moment()
        assert len(eve.client.all_heard(Data)) == 1
        assert server.counters.messages_refused == 1


@in_virtual_time
async def test_an_agent_needs_the_role_too() -> None:
    async with serving(court()) as server:
        room = await server.create_room("hall")
        bot, master = server.open_agent("bot"), server.open_agent("master", roles=["gm"])
        seat, throne = await bot.join(room.id), await master.join(room.id)

        with pytest.raises(NotAllowed, match="role 'gm'"):
            await seat.send(Smite("master"))
        await throne.send(Smite("bot"))

        assert await anext(aiter(throne)) == Said("agent:master smites bot: ['gm']")


@in_virtual_time
async def test_a_refused_message_is_acknowledged_like_any_other() -> None:
    async with serving(court(durability="commit")) as server:
        eve = await seated(server, "eve")

        for number in range(1, 41):
            eve.client.send(number, Smite("gm"))

        await a_moment(1.0)
        acked = [frame.ack for frame in eve.client.heard if isinstance(frame, Ack | Data)]
        assert max(acked) == 40


# Rooms


class Wish:
    """Something that a player asks for in a room, or for one."""

    def __init__(self, needs: str, ask: Callable[[Caller, str], Awaitable[Any]]) -> None:
        self.needs = needs
        self.ask = ask


WISHES = {
    "create": Wish("create", lambda caller, _: of_hall(caller, "create", RoomInfo)),
    "place": Wish("create", lambda caller, _: of_hall(caller, "start_placement", PlacementInfo, queue="here")),
    "join": Wish("join", lambda caller, room: caller.join(room)),
    "reserve": Wish("join", lambda caller, room: caller.ask("reserve", ReservationInfo, room=room)),
    "wait": Wish("join", lambda caller, room: caller.ask("wait", WaitInfo, room=room)),
    "quick join": Wish("join", lambda caller, _: of_hall(caller, "join_or_create", RoomInfo)),
}


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("badge", ["ada", "ada+other", "ada+maker", "ada+member", "ada+maker+member"])
@in_virtual_time
async def test_what_a_room_asks_a_role_for_is_refused_to_those_without_it(wish: Wish, badge: str) -> None:
    kind = hall(durability="memory", create_role="maker", join_role="member", waiting_max=4)
    async with serving(kind, queues=[Queue("here", ("*",))]) as server:
        room = (await server.parts.rooms.create(Create("hall"), "ada")).room
        caller = await sign_in(server, badge)
        needed = {"create": "maker", "join": "member"}[wish.needs]

        if needed in badge.split("+"):
            await wish.ask(caller, room.id)
            return
        with pytest.raises(NotAllowed, match=f"requires the role '{needed}'"):
            await wish.ask(caller, room.id)

        assert len(server.rooms) == 1
        assert seats(server) == []
        assert context_of(room).seats.reservations == {}


@in_virtual_time
async def test_who_may_sit_but_not_make_joins_what_is_there_and_makes_nothing() -> None:
    async with serving(hall(durability="memory", create_role="maker", max_players=1)) as server:
        first, second = await sign_in(server, "ada"), await sign_in(server, "bob")
        await server.create_room("hall")

        await of_hall(first, "join_or_create", RoomInfo)
        with pytest.raises(NotAllowed, match="creating a room of the kind 'hall' requires the role 'maker'"):
            await of_hall(second, "join_or_create", RoomInfo)

        assert len(server.rooms) == 1


@in_virtual_time
async def test_who_waits_for_a_room_that_another_makes_needs_no_role_for_it() -> None:
    async with serving(hall(durability="memory", create_role="maker")) as server:
        maker, other = await sign_in(server, "ada+maker"), await sign_in(server, "bob")
        maker.client.ask("join_or_create", kind="hall")
        other.client.ask("join_or_create", kind="hall")

        await a_moment()

        assert sorted(seats(server)) == ["ada", "bob"]
        assert len(server.rooms) == 1


@in_virtual_time
async def test_a_room_may_ask_for_another_role_than_its_kind() -> None:
    class Salon(Hall):
        kind = "hall"

        def on_create(self, config: dict[str, Any]) -> None:
            super().on_create(config)
            self.join_role = str(config.get("for", ""))

    async with serving(Salon) as server:
        closed = await server.create_room("hall", config={"for": "vip"})
        await a_moment()
        ada, bob = await sign_in(server, "ada"), await sign_in(server, "bob+vip")

        with pytest.raises(NotAllowed):
            await ada.join(closed.id)
        made = await of_hall(ada, "join_or_create", RoomInfo)
        found = await of_hall(bob, "join_or_create", RoomInfo)

        assert made.id != closed.id
        assert found.id == closed.id


@in_virtual_time
async def test_agents_need_the_roles_and_the_server_itself_needs_none() -> None:
    async with serving(hall(durability="memory", create_role="maker", join_role="member")) as server:
        room = await server.create_room("hall")
        bot, other = server.open_agent("bot"), server.open_agent("other", roles=["maker", "member"])

        with pytest.raises(NotAllowed):
            await bot.create("hall")
        with pytest.raises(NotAllowed):
            await bot.join(room.id)
        await other.join(await other.create("hall"))

        assert len(server.rooms) == 2


@in_virtual_time
async def test_searches_show_rooms_that_one_may_not_join() -> None:
    async with serving(hall(durability="memory", join_role="member")) as server:
        room = await server.create_room("hall")
        ada = await sign_in(server, "ada")

        page = await of_hall(ada, "search", RoomPage)

        assert [info.id for info in page.rooms] == [room.id]


# They last as long as the session


@pytest.mark.parametrize("how", ["drop", "crash", "restart"])
@in_virtual_time
async def test_roles_outlive_a_drop_a_crash_and_a_restart(how: str) -> None:
    async with serving(court(durability="commit")) as server:
        gm = await seated(server, "gm+gm+vip")

        await _interrupt(server, how)
        await back(server, gm.welcome)

        (session,) = server.sessions.of_player("gm")
        assert session.roles == {"gm", "vip"}
        assert session.player is not None
        assert session.player.roles == {"gm", "vip"}


async def _interrupt(server: MemoryServer, how: str) -> None:
    if how == "drop":
        for link in server.links:
            link.cut()
        await a_moment()
    elif how == "crash":
        server.crash()
        await server.start()
    else:
        await server.stop()
        await server.start()


def test_a_kind_without_roles_looks_its_handlers_up_as_before() -> None:
    assert all(not handler.role for handler in room_handlers(Hall).values())
    assert {name: handler.role for name, handler in room_handlers(Court).items()} == {"say": "", "smite": "gm"}


def test_rooms_ask_for_no_role_by_default() -> None:
    assert (Room.create_role, Room.join_role) == ("", "")
