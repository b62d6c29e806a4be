"""Responses that another node gives: long ones come whole; streams go on while somebody reads, and end after that."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Limits
from holdfast.http.app import App
from holdfast.testing.server import MemoryServer, generous
from tests.server.cluster.nodes import Board, Nodes, Say, Table, asks, in_virtual_time, until
from tests.server.cluster.test_operators import Api, seated


class Reader:
    """Reads one response of one node, as it comes."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.is_over = False
        self._gone = asyncio.Event()
        self._changed = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._has_asked = False

    async def receive(self) -> dict[str, Any]:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self._may_read.wait()
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
        self.is_over = message["type"] == "http.response.body" and not message.get("more_body")
        self._changed.set()

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.body.decode().split("\n")
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1] if line.startswith("data: ")]

    async def until_events(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.events) < count:
                self._changed.clear()
                await self._changed.wait()

    def leave(self) -> None:
        self._gone.set()

    def stall(self) -> None:
        self._may_read.clear()


@asynccontextmanager
async def reading(server: MemoryServer, path: str) -> AsyncIterator[tuple[Reader, asyncio.Task[None]]]:
    """Somebody reads this path on this node."""
    reader = Reader()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7778),
        "state": {},
    }
    task = asyncio.create_task(App(server.operate)(scope, reader.receive, reader.send))
    try:
        yield reader, task
    finally:
        reader.leave()
        task.cancel()
        await asyncio.wait([task])


def held(server: MemoryServer) -> int:
    """The responses that a node makes for others, and that are not read to their end."""
    elsewhere = server.operate.elsewhere
    assert elsewhere is not None
    return len(elsewhere._responses)  # noqa: SLF001 - nothing else shows that one was left over


# Long responses


@in_virtual_time
async def test_a_long_response_of_another_node_comes_whole() -> None:
    async with Nodes("ab") as nodes:
        b = Api(nodes.b)
        _, room_id = await seated(nodes, "ann", "b")
        room = nodes.b.rooms.get(room_id)
        assert isinstance(room, Table)
        room.state = Board([f"line {number} of many" for number in range(20_000)])

        direct = await b.fetch("GET", f"/v1/rooms/{room_id}/state")
        forwarded = await Api(nodes.a).fetch("GET", f"/v1/rooms/{room_id}/state")

        assert direct[0] == forwarded[0] == 200
        assert len(direct[1]) > 5 * nodes.limits.forwarded_bytes_max
        assert json.loads(forwarded[1])["state"] == json.loads(direct[1])["state"]
        assert held(nodes.b) == 0


@in_virtual_time
async def test_a_response_that_nobody_reads_any_more_is_dropped() -> None:
    limits = generous(Limits(forwarded_s=3.0))
    async with Nodes("ab", limits=limits) as nodes:
        Api(nodes.b)
        _, room_id = await seated(nodes, "ann", "b")
        room = nodes.b.rooms.get(room_id)
        assert isinstance(room, Table)
        room.state = Board(["x" * 100] * 10_000)
        async with reading(nodes.a, f"/v1/rooms/{room_id}/state") as (reader, _):
            reader.stall()
            await until(lambda: held(nodes.b) == 1)

            await asyncio.sleep(limits.forwarded_s + 1.0)

            assert held(nodes.b) == 0


@in_virtual_time
async def test_a_node_gives_only_so_many_responses_to_others_at_once() -> None:
    limits = generous(Limits(forwarded_max=1))
    async with Nodes("ab", limits=limits) as nodes:
        Api(nodes.b)
        _, room_id = await seated(nodes, "ann", "b")
        async with reading(nodes.a, f"/v1/rooms/{room_id}/messages"):
            await until(lambda: held(nodes.b) == 1)

            status, refused = await Api(nodes.a).ask("GET", f"/v1/rooms/{room_id}")

        assert (status, refused["code"]) == (429, "throttled")
        assert "the node b answers too many requests" in refused["detail"]
        await until(lambda: held(nodes.b) == 0)
        assert (await Api(nodes.a).ask("GET", f"/v1/rooms/{room_id}"))[0] == 200


# Streams


@in_virtual_time
async def test_messages_of_a_room_on_another_node_are_heard_as_they_come_until_the_reader_leaves() -> None:
    async with Nodes("ab") as nodes:
        Api(nodes.b)
        session, room_id = await seated(nodes, "ann", "b")
        assert session.room is not None
        async with reading(nodes.a, f"/v1/rooms/{room_id}/messages") as (reader, task):
            await until(lambda: reader.status == 200)
            for number in range(200):
                await session.room.send(Say(f"{number}"))
                await asyncio.sleep(0.05)
            await reader.until_events(400)

            said = [each["body"]["body"]["text"] for each in reader.events if each["body"]["direction"] == "in"]
            assert said == [f"{number}" for number in range(200)]
            # Long after an answer between nodes has to be there.
            await asyncio.sleep(10 * nodes.limits.answer_s)
            await session.room.send(Say("later"))
            await until(lambda: "later" in reader.body.decode())
            assert not reader.is_over

            reader.leave()
            await asyncio.wait([task])
        await until(lambda: held(nodes.b) == 0)


@in_virtual_time
async def test_a_stream_ends_with_its_room_and_when_the_node_dies() -> None:
    async with Nodes("abc") as nodes:
        b = Api(nodes.b)
        _, one = await seated(nodes, "ann", "b")
        _, other = await seated(nodes, "bob", "b")
        async with (
            reading(nodes.a, f"/v1/rooms/{one}/messages") as (ending, _),
            reading(nodes.a, f"/v1/rooms/{other}/messages") as (dying, _),
        ):
            await until(lambda: ending.status == dying.status == 200)

            await b.ask("DELETE", f"/v1/rooms/{one}")
            await until(lambda: ending.is_over)
            assert not dying.is_over

            nodes.b.crash()
            # In order: whoever reads comes back, to the node that has the room then.
            await until(lambda: dying.is_over)
            [now] = [name for name in "ac" if await _has(nodes, name, other)]
            assert nodes.where(other) == [now]


async def _has(nodes: Nodes, name: str, room_id: str) -> bool:
    async with asyncio.timeout(30):
        while not nodes.where(room_id):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)
    return nodes.where(room_id) == [name]


@in_virtual_time
async def test_a_response_whose_node_does_not_answer_half_way_is_cut_and_not_taken_for_whole() -> None:
    async with Nodes("ab") as nodes:
        Api(nodes.b)
        _, room_id = await seated(nodes, "ann", "b")
        room = nodes.b.rooms.get(room_id)
        assert isinstance(room, Table)
        room.state = Board(["x" * 100] * 10_000)
        nodes.bus("b").ignores = asks("operate_more")

        async with reading(nodes.a, f"/v1/rooms/{room_id}/state") as (reader, task):
            await asyncio.wait([task])

        assert reader.status == 200
        assert not reader.is_over
