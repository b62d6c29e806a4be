"""A node for those who operate it: everything that the HTTP API may ask, of a real server."""

import inspect
import random
from typing import Any

import pytest

from holdfast import Limits, NotFound, Queue, Reason, RoomFull, SeatLeft, Server, SessionEnded
from holdfast.core.errors import Conflict, Invalid, Refused
from holdfast.schemas.player import ReservationInfo, SeatInfo
from holdfast.schemas.requests import Create, PlacedPlayer, Release, Reserve, Search, StartPlacement, Update
from holdfast.server.operations import Operations
from tests.server.world import Gate, World, chat


async def _running(world: World, **options: Any) -> tuple[Server, Operations]:
    server = await world.serve(chat(max_players=2, **options.pop("settings", {})), **options)
    return server, server.operate


# Rooms


async def test_an_operator_makes_finds_changes_and_ends_rooms(world: World) -> None:
    server, backend = await _running(world)

    made = await backend.rooms.create(Create("chat", {"map": "cave"}, name="first", visibility="private"))
    found = await backend.rooms.search(Search(where="properties.map = 'cave'"))
    changed = await backend.rooms.update(Update(made.id, name="second", set={"map": "dust"}, if_version=made.version))
    with pytest.raises(Conflict):
        await backend.rooms.update(Update(made.id, name="third", if_version=made.version))
    got = backend.rooms.get(made.id)
    ending = await backend.rooms.end(made.id, "cheating")
    ended = backend.rooms.get(made.id)

    assert found.rooms == [made]
    assert made.code
    assert (made.creator, made.status, made.visibility) == ("", "active", "private")
    assert (changed.name, changed.properties, changed.code) == ("second", {"map": "dust"}, made.code)
    assert got == changed
    assert ending.reason == ended.reason == "cheating"
    assert (ended.status, ended.open_seats) == ("ended", 0)
    assert (await backend.rooms.search(Search(where=""))).rooms == []
    assert len(server.rooms) == 0


async def test_what_is_not_there_is_not_found(world: World) -> None:
    _, backend = await _running(world)
    room = await backend.rooms.create(Create("chat"))

    for ask in (
        lambda: backend.rooms.get("none"),
        lambda: backend.rooms.seats("none"),
        lambda: backend.sessions.get("none"),
        lambda: backend.everywhere.player("none"),
        lambda: backend.placements.get("none"),
        lambda: backend.rooms.create(Create("castle")),
        lambda: backend.rooms.update(Update("none")),
        lambda: backend.rooms.end("none", ""),
        lambda: backend.rooms.reserve(Reserve("none", players=["ada"])),
        lambda: backend.rooms.reserve(Reserve(code="BCDFGH", players=["ada"])),
        lambda: backend.rooms.release(Release("none", ["ada"])),
        lambda: backend.rooms.release(Release(room.id, ["ada"])),
        lambda: backend.rooms.kick("none", "ada", ""),
        lambda: backend.rooms.kick(room.id, "ada", ""),
        lambda: backend.sessions.end("none", ""),
        lambda: backend.placements.start(StartPlacement("none", "chat")),
        lambda: backend.placements.stop("none"),
    ):
        with pytest.raises(NotFound):
            await _answer(ask())


async def _answer(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


# Seats


async def test_an_operator_sees_who_has_a_seat_and_for_how_long_one_is_kept(world: World) -> None:
    server, backend = await _running(world, settings={"election": "oldest", "grace_s": 60.0})
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    seat = await ada.join_or_create("chat")
    await backend.rooms.reserve(Reserve(seat.id, players=[bob.player_id], ttl_s=30.0))

    taken, reserved = backend.rooms.seats(seat.id)
    gate.shut()
    server.sessions.of_player(ada.player_id)[0].disconnect("test")
    held, _ = backend.rooms.seats(seat.id)
    gate.open()

    assert taken == SeatInfo(ada.player_id, "taken", ada.id, taken.latency_ms, is_host=True)
    assert (reserved.player, reserved.state, reserved.session) == (bob.player_id, "reserved", "")
    assert 25.0 < reserved.expires_in_s <= 30.0
    assert (held.player, held.state, held.session, held.is_host) == (ada.player_id, "held", ada.id, True)
    assert 55.0 < held.expires_in_s <= 60.0


async def test_an_operator_reserves_for_a_party_all_or_none_and_gives_seats_back(world: World) -> None:
    _, backend = await _running(world)
    room = await backend.rooms.create(Create("chat"))

    with pytest.raises(RoomFull):
        await backend.rooms.reserve(Reserve(room.id, players=["a", "b", "c"]))
    assert backend.rooms.seats(room.id) == []
    reserved = await backend.rooms.reserve(Reserve(code=room.code, players=["a", "b"], ttl_s=20.0))
    assert reserved == ReservationInfo(room.id, ["a", "b"], reserved.expires_in_s)
    assert [seat.player for seat in backend.rooms.seats(room.id)] == ["a", "b"]
    assert backend.players.look("a").rooms == [room.id]
    with pytest.raises(NotFound):
        await backend.rooms.release(Release(room.id, ["b", "c"]))
    await backend.rooms.release(Release(room.id, ["b"]))

    assert [seat.player for seat in backend.rooms.seats(room.id)] == ["a"]
    assert backend.rooms.get(room.id).players == 1
    with pytest.raises(NotFound):
        await backend.everywhere.player("b")


async def test_an_operator_kicks_a_player_who_is_told_why(world: World) -> None:
    server, backend = await _running(world)
    ada = await world.connect(server)
    seat = await ada.join_or_create("chat")

    await backend.rooms.kick(seat.id, ada.player_id, "no dogs")
    heard = [message async for message in seat]

    assert heard == []
    assert seat.left == SeatLeft(Reason.KICKED, "no dogs")
    assert backend.rooms.seats(seat.id) == []
    with pytest.raises(NotFound):
        await backend.rooms.kick(seat.id, ada.player_id, "twice")


# Sessions and players


async def test_an_operator_sees_sessions_and_ends_them(world: World) -> None:
    server, backend = await _running(world)
    ada, bob = await world.connect(server), await world.connect(server, transport="websocket")
    seat = await ada.join_or_create("chat")

    shown = backend.sessions.get(ada.id)
    theirs = backend.sessions.list(player=bob.player_id, limit=10, cursor="")
    await backend.sessions.end(ada.id, "banned")
    with pytest.raises(SessionEnded, match="banned"):
        await ada.search()

    assert (shown.id, shown.player, shown.status) == (ada.id, ada.player_id, "connected")
    assert (shown.room, shown.transport) == (seat.id, "websocket")
    assert 0.0 <= shown.idle_s <= shown.age_s < 30.0
    assert [session.id for session in theirs.sessions] == [bob.id]
    assert backend.rooms.seats(seat.id) == []
    with pytest.raises(NotFound):
        backend.sessions.get(ada.id)


def _sessions(backend: Operations, limit: int) -> list[str]:
    page = backend.sessions.list(player="", limit=limit, cursor="")
    found = [session.id for session in page.sessions]
    while page.cursor:
        page = backend.sessions.list(player="", limit=limit, cursor=page.cursor)
        found += [session.id for session in page.sessions]
    return found


def _players(backend: Operations, limit: int) -> list[str]:
    page = backend.players.list(limit=limit, cursor="")
    found = [player.id for player in page.players]
    while page.cursor:
        page = backend.players.list(limit=limit, cursor=page.cursor)
        found += [player.id for player in page.players]
    return found


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_pages_of_sessions_and_players_are_whole(world: World, limit: int) -> None:
    server, backend = await _running(world)
    agents = [server.open_agent(f"{number % 15:02}") for number in range(21)]
    room = await backend.rooms.create(Create("chat"))
    await backend.rooms.reserve(Reserve(room.id, players=["zoe", "agent:03"]))

    assert _sessions(backend, limit) == sorted(agent.session.id for agent in agents)
    assert _players(backend, limit) == [*(f"agent:{number:02}" for number in range(15)), "zoe"]


async def test_a_page_of_very_many_is_of_the_first_of_them_each_once(world: World) -> None:
    server, backend = await _running(world)
    players = [f"agent:{number:04}" for number in range(1500)]
    for player in random.Random(1).sample([*players, *players[:300]], 1800):
        server.open_agent(player)

    assert _players(backend, 400) == players


async def test_pages_go_on_from_where_they_were_while_sessions_come_and_go(world: World) -> None:
    server, backend = await _running(world)
    agents = {str(agent.session.id): agent for agent in (server.open_agent(f"agent-{number}") for number in range(20))}
    page = backend.sessions.list(player="", limit=8, cursor="")
    people = backend.players.list(limit=8, cursor="")
    seen = {session.id for session in page.sessions} | {page.cursor}

    for session_id in seen:
        agents.pop(session_id).end()
    newcomers = {str(server.open_agent(f"newcomer-{number}").session.id) for number in range(5)}
    rest = [each.id for each in backend.sessions.list(player="", limit=100, cursor=page.cursor).sessions]
    others = [each.id for each in backend.players.list(limit=100, cursor=people.cursor).players]

    assert set(rest) - newcomers == set(agents)
    assert seen.isdisjoint(rest)
    gone = {player.id for player in people.players}
    assert gone.isdisjoint(others)
    assert {str(agent.session.player_id) for agent in agents.values()} <= gone | set(others)


async def test_a_player_is_shown_with_all_sessions_and_rooms(world: World) -> None:
    server, backend = await _running(world)
    room, other = await backend.rooms.create(Create("chat")), await backend.rooms.create(Create("chat"))
    phone, tablet = server.open_agent("ada"), server.open_agent("ada")
    await phone.join(room.id)
    await backend.rooms.reserve(Reserve(other.id, players=["agent:ada"]))

    ada = backend.players.look("agent:ada")

    assert ada.sessions == [phone.session.id, tablet.session.id]
    assert ada.rooms == [room.id, other.id]


# Placements and the node


async def test_an_operator_starts_watches_and_stops_placements(world: World) -> None:
    queues = [Queue("here", ("*",)), Queue("moon", ("region:moon",), timeout_s=300.0)]
    server, backend = await _running(world, queues=queues, region="earth")
    events = backend.events.read()

    assert [(queue.name, queue.destinations, queue.pending) for queue in backend.placements.queues()] == [
        ("here", ["*"], 0), ("moon", ["region:moon"], 0),
    ]  # fmt: skip
    started = await backend.placements.start(StartPlacement("here", "chat", [PlacedPlayer("ada")], id="mine"))
    same = await backend.placements.start(StartPlacement("here", "chat", [PlacedPlayer("ada")], id="mine"))
    async for event in events:
        if event.type == "placement.changed" and event.body["status"] != "pending":
            break
    placed = await backend.placements.get("mine")
    waiting = await backend.placements.start(StartPlacement("moon", "chat"))
    pending = [queue.pending for queue in backend.placements.queues()]
    stopped = await backend.placements.stop(waiting.id)

    assert started.id == same.id == "mine"
    assert (placed.status, placed.node) == ("fulfilled", backend.health.info().name)
    assert placed.room is not None
    assert placed.room.code
    assert [seat.player for seat in backend.rooms.seats(placed.room.id)] == ["ada"]
    assert pending == [0, 1]
    assert stopped.status == "cancelled"
    assert [each.id for each in (await backend.placements.list())[0]] == ["mine", waiting.id]
    with pytest.raises(Conflict):
        await backend.placements.stop("mine")
    with pytest.raises(Conflict):
        await backend.placements.start(StartPlacement("here", "chat", id="mine"))
    assert len(server.rooms) == 1


async def test_the_node_tells_how_it_is(world: World) -> None:
    server, backend = await _running(world, region="eu", limits=Limits(rooms_max=7))
    await backend.rooms.create(Create("chat"))
    server.open_agent("ada")

    node = backend.health.info()

    assert (node.name, node.region) == (server.parts.name, "eu")
    assert (node.is_ready, node.is_healthy, node.reasons) == (True, True, [])
    assert (node.rooms, node.rooms_max, node.sessions) == (1, 7, 1)


async def test_nothing_but_refusals_comes_out_of_bad_wishes(world: World) -> None:
    _, backend = await _running(world)
    room = await backend.rooms.create(Create("chat"))

    for wish in (
        lambda: backend.rooms.create(Create("chat", max_players=3)),
        lambda: backend.rooms.create(Create("chat", {"map": {"nested": 1}})),
        lambda: backend.rooms.search(Search(where="flavour = 1")),
        lambda: backend.rooms.search(Search(order_by=["flavour"])),
        lambda: backend.rooms.search(Search(cursor="x")),
        lambda: backend.rooms.update(Update(room.id, max_players=0)),
        lambda: backend.rooms.reserve(Reserve(room.id, code=room.code, players=["ada"])),
        lambda: backend.rooms.reserve(Reserve(room.id, players=["ada"], ttl_s=10_000.0)),
    ):
        with pytest.raises(Invalid):
            await _answer(wish())
    with pytest.raises(Refused):
        await backend.rooms.update(Update(room.id, host="nobody"))
