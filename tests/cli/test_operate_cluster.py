"""The commands for a cluster, against three real nodes on a real NATS server."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

import holdfast
from holdfast import HttpApi, PlayerData, Room, Server, WebSocket
from tests.cli.operator import Operator
from tests.nats_server import shared_server


class Arena(Room[PlayerData]):
    durability = "commit"
    max_players = 4


class Lounge(Room[PlayerData]):
    max_players = 4


@pytest.fixture
async def operators() -> AsyncIterator[dict[str, Operator]]:
    """Somebody at each of three nodes."""
    place = f"{shared_server().url}/cli-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        servers = [
            Server([Arena, Lounge], cluster=place, name=name, listen=[WebSocket(port=0)], http=HttpApi(port=0))
            for name in "abc"
        ]
        await asyncio.gather(*map(stack.enter_async_context, servers))
        found = {server.parts.name: Operator(server) for server in servers}
        yield found


async def test_the_nodes_are_listed_by_any_of_them(operators: dict[str, Operator]) -> None:
    listed = await operators["b"].json("nodes", "list")
    table = await operators["c"].output("nodes")

    assert [(each["name"], each["state"]) for each in listed["nodes"]] == [
        ("a", "alive"),
        ("b", "alive"),
        ("c", "alive"),
    ]
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["a", "b", "c"]
    assert "this one" in table


async def test_a_room_moves_while_its_player_notices_nothing(operators: dict[str, Operator]) -> None:
    async with holdfast.connect(operators["a"].server.url) as session:
        drops: list[object] = []
        session.on_drop(drops.append)
        room = await session.join_or_create("arena")

        said = await operators["c"].output("rooms", "move", room.id, "--to", "b")

        assert said == f"Room {room.id} is on node b now."
        listed = await operators["a"].json("rooms", "show", room.id)
        [shown] = await operators["a"].json("sessions", "list")
        explained = await operators["c"].output("sessions", "explain", session.id)
        assert (listed["node"], shown["node"]) == ("b", "b")
        assert room.id in await operators["a"].output("rooms", "show", room.id)
        assert "moved to the node b" in explained
        assert "without a drop" in explained
        assert drops == []


async def test_what_cannot_be_done_is_said_with_the_reason(operators: dict[str, Operator]) -> None:
    async with holdfast.connect(operators["a"].server.url) as session:
        lounge = await session.create("lounge")

        nowhere = await operators["a"].run("rooms", "move", lounge.id, "--to", "z")
        in_memory = await operators["a"].run("rooms", "move", lounge.id, "--to", "b")
        unknown = await operators["a"].run("nodes", "drain", "z")
        both = await operators["a"].run("nodes", "drain", "b", "--wait", "--cancel")
        misplaced = await operators["a"].run("nodes", "--json", "drain", "b")

        assert (nowhere.exit_code, in_memory.exit_code, unknown.exit_code) == (1, 1, 1)
        assert "there is no node 'z' in the cluster; there are: a, b, c" in nowhere.stderr
        assert "in memory only and cannot move" in in_memory.stderr
        assert "there is no node 'z'" in unknown.stderr
        assert (both.exit_code, misplaced.exit_code) == (2, 2)
        assert "behind the command" in misplaced.stderr


async def test_a_node_is_drained_and_taken_back(operators: dict[str, Operator]) -> None:
    async with holdfast.connect(operators["a"].server.url) as session:
        drops: list[object] = []
        session.on_drop(drops.append)
        room = await session.join_or_create("arena")
        assert (await operators["b"].json("rooms", "show", room.id))["node"] == "a"

        drained = await operators["b"].output("nodes", "drain", "a", "--wait")

        assert drained == "Node a is drained: it may be stopped."
        assert (await operators["a"].json("rooms", "show", room.id))["node"] in {"b", "c"}
        assert drops == []
        back = await operators["c"].output("nodes", "drain", "a", "--cancel")
        assert back == "Node a takes rooms and players again."


async def test_commands_for_a_cluster_say_that_a_server_is_alone() -> None:
    async with Server([Lounge], listen=[], http=HttpApi(port=0)) as server:
        operator = Operator(server)

        listed = await operator.output("nodes")
        moved = await operator.run("rooms", "move", "r", "--to", "b")

        assert "not a node of a cluster" in listed
        assert moved.exit_code == 1
        assert "not a node of a cluster" in moved.stderr


async def test_a_node_that_does_not_answer_is_named(operators: dict[str, Operator]) -> None:
    cluster = operators["b"].server.parts.cluster
    assert cluster is not None
    # It does not know the question, as a node of another version.
    cluster.node.questions._handlers.pop("list_sessions")  # noqa: SLF001 - there is no other way not to answer

    result = await operators["a"].run("sessions", "list")

    assert "Not shown: what is on b, which did not answer." in result.stderr
