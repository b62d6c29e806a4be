"""Every request works from every node, whatever the session has: as on one server.

Each case is played twice: on one node, and with the room on another one. What the player is answered must be the same,
but for the exceptions in `OTHERWISE`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from holdfast.client.session import ClientSession
from holdfast.core.errors import Refused
from holdfast.schemas.room import RoomInfo
from tests.server.cluster.nodes import Nodes, Table, in_virtual_time

STALE_S = 0.5
STATES = ("no seat", "a seat", "watching")
WAYS = ("direct", "relayed")
OTHERWISE = {("spectate", "a seat"): "not_allowed"}
"""A seat and what its session watches are on one node."""


class Den(Table):
    """Two seats, a waitlist, and a window."""

    kind = "den"
    durability = "memory"  # type: ignore[assignment]  # of a literal that is narrower there
    max_players = 2
    max_spectators = 4
    waiting_max = 4


@dataclass
class Scene:
    """The player, and the room that their request is about."""

    nodes: Nodes
    me: ClientSession
    zoe: ClientSession
    """A player in the room, or on its node."""
    room: RoomInfo


async def _full(scene: Scene) -> None:
    await scene.zoe.join(scene.room.id)
    other = await scene.nodes.connect("other", "c")
    await other.join(scene.room.id)


async def _search(scene: Scene) -> object:
    await asyncio.sleep(STALE_S)
    return [room.id == scene.room.id for room in await scene.me.search("den", where="properties.map = 'x'")]


async def _join(scene: Scene) -> object:
    return (await scene.me.join(scene.room.id)).id == scene.room.id


async def _join_by_code(scene: Scene) -> object:
    return (await scene.me.join(code=scene.room.code)).id == scene.room.id


async def _join_nowhere(scene: Scene) -> object:
    return await scene.me.join("nowhere_nowh")


async def _join_or_create(scene: Scene) -> object:
    await asyncio.sleep(STALE_S)
    room = await scene.me.join_or_create("den", properties={"map": "x"}, where="properties.map = 'x'")
    return room.id == scene.room.id


async def _create(scene: Scene) -> object:
    return (await scene.me.create("den")).kind


async def _spectate(scene: Scene) -> object:
    return (await scene.me.spectate(scene.room.id)).id == scene.room.id


async def _reserve(scene: Scene) -> object:
    reserved = await scene.me.reserve(scene.room.id, players=["me", "friend"])
    return reserved.players, reserved.room == scene.room.id


async def _reserve_by_code(scene: Scene) -> object:
    return (await scene.me.reserve(code=scene.room.code)).players


async def _reserve_in_a_full_room(scene: Scene) -> object:
    await _full(scene)
    return await scene.me.reserve(scene.room.id)


async def _release(scene: Scene) -> object:
    await scene.me.reserve(scene.room.id, players=["me", "friend"])
    await scene.me.release(scene.room.id, ["friend"])
    third = await scene.nodes.connect("third", "c")
    return (await third.join(scene.room.id)).kind


async def _release_of_others(scene: Scene) -> object:
    await scene.zoe.update_room(scene.room.id, name="mine")
    await scene.me.release(scene.room.id, ["zoe"])
    return "released"


async def _wait(scene: Scene) -> object:
    await _full(scene)
    positions: list[int] = []
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(scene.me.wait_for_seat(scene.room.id, on_position=positions.append), 1.0)
    return positions


async def _stop_waiting(scene: Scene) -> object:
    await _wait(scene)
    await asyncio.sleep(0.1)
    fourth = await scene.nodes.connect("fourth", "c")
    return await _wait_of(fourth, scene)


async def _wait_of(session: ClientSession, scene: Scene) -> list[int]:
    positions: list[int] = []
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.wait_for_seat(scene.room.id, on_position=positions.append), 1.0)
    return positions


async def _update(scene: Scene) -> object:
    changed = await scene.me.update_room(scene.room.id, name="new", set={"map": "y"}, max_players=1)
    return changed.name, changed.properties, changed.max_players


async def _update_of_others(scene: Scene) -> object:
    other = await scene.zoe.create("den")
    return await scene.me.update_room(other.id, name="mine")


async def _my_rooms(scene: Scene) -> object:
    await scene.me.reserve(scene.room.id)
    return scene.room.id in [room.id for room in await scene.me.my_rooms()]


async def _rename(scene: Scene) -> object:
    return await scene.me.rename("Annabel")


async def _watch(scene: Scene) -> object:
    async with scene.me.watch("den", where="properties.map = 'x'") as watch:
        await asyncio.sleep(STALE_S)
        return len(watch.rooms)


OPERATIONS: dict[str, Callable[[Scene], Awaitable[object]]] = {
    name.removeprefix("_"): operation
    for name, operation in dict(globals()).items()
    if name.startswith("_") and asyncio.iscoroutinefunction(operation) and name not in {"_full", "_wait_of"}
}


async def answered(operation: str, state: str, way: str, nodes: Nodes, at: str) -> object:
    """What the player, whose session is on node a, is answered about a room on that node."""
    maker, host = await nodes.connect("me", at), await nodes.connect("host", "a")
    room = await maker.create("den", properties={"map": "x"})
    zoe = await nodes.connect("zoe", at)
    home = await host.join_or_create("table")
    window = await host.create("den")
    me = await nodes.connect("me", *("ac" if way == "relayed" else "a"))
    await maker.close()
    if state == "a seat":
        await me.join(home.id)
    elif state == "watching":
        await me.spectate(window.id)
    if way == "relayed":
        # The way to its node is closed, and the node lives.
        nodes.a._stop_listening()  # noqa: SLF001
        nodes.a.link(me).cut()
        await me.my_rooms()
        assert nodes.edge("c").relayed_count == 1
    assert nodes.where_session(me.id) == ["a"]
    try:
        answer: object = await OPERATIONS[operation](Scene(nodes, me, zoe, room))
    except Refused as refusal:
        answer = refusal.code
    # Whatever happened, the session lives on one node, and the player has what they had.
    assert len(nodes.where_session(me.id)) == 1
    if state == "a seat":
        assert me.room is not None
        assert me.room.id == home.id
        assert me.room.left is None
    return answer


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("operation", OPERATIONS)
@in_virtual_time
async def test_a_request_about_a_room_of_another_node_is_answered_as_on_one_server(
    operation: str, state: str, way: str
) -> None:
    rooms = (Table, Den)
    async with Nodes("ac", rooms=rooms) as nodes:
        alone = await answered(operation, state, way, nodes, "a")
    async with Nodes("abc", rooms=rooms) as nodes:
        assert await answered(operation, state, way, nodes, "b") == OTHERWISE.get((operation, state), alone)
