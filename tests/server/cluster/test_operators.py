"""Any node answers operators for all nodes: its HTTP API shows the whole cluster, and acts where something is."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from holdfast.client.session import ClientSession
from holdfast.events import Event, NodeDied, RoomMoved, RoomRecovered
from holdfast.http.app import App
from holdfast.testing.server import MemoryServer
from tests.server.cluster.nodes import Nodes, in_virtual_time, until

Content = dict[str, Any]


class Api:
    """The HTTP API of one node, without a socket."""

    def __init__(self, server: MemoryServer) -> None:
        self._app = App(server.operate)

    async def ask(
        self, method: str, path: str, body: Content | None = None, query: Mapping[str, object] | None = None
    ) -> tuple[int, Content]:
        status, raw = await self.fetch(method, path, body, query)
        return status, json.loads(raw) if raw else {}

    async def fetch(
        self, method: str, path: str, body: Content | None = None, query: Mapping[str, object] | None = None
    ) -> tuple[int, bytes]:
        sent: list[Any] = []
        requests = [json.dumps(body).encode() if body is not None else b""]
        gone = asyncio.Event()

        async def receive() -> Any:
            if not requests:
                await gone.wait()
            return {"type": "http.request", "body": requests.pop(), "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": urlencode(query or {}).encode(),
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(requests[0])).encode()),
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7778),
            "state": {},
        }
        await self._app(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

    async def get(self, path: str, **query: object) -> Content:
        status, content = await self.ask("GET", path, query=query)
        assert status == 200, content
        return content


async def seated(nodes: Nodes, player: str, node: str, kind: str = "table") -> tuple[ClientSession, str]:
    """A player in a room of their own on this node."""
    session = await nodes.connect(player, node)
    room = await session.create(kind)
    await session.join(room.id)
    return session, room.id


def names(content: Content) -> list[str]:
    return [each["name"] for each in content["nodes"]]


# The nodes


@in_virtual_time
async def test_every_node_lists_all_nodes_with_what_they_have() -> None:
    async with Nodes("abc") as nodes:
        apis = {name: Api(server) for name, server in nodes.servers.items()}
        await seated(nodes, "ann", "b")
        await asyncio.sleep(1.0)

        for name, api in apis.items():
            content = await api.get("/v1/nodes")
            assert names(content) == ["a", "b", "c"]
            shown = {each["name"]: each for each in content["nodes"]}
            assert [each["state"] for each in content["nodes"]] == ["alive"] * 3
            assert [key for key, each in shown.items() if each["is_self"]] == [name]
            assert (shown["b"]["rooms"], shown["b"]["sessions"], shown["b"]["connections"]) == (1, 1, 1)
            assert shown["a"]["rooms"] == 0
            assert shown["b"]["kinds"] == ["table", "lounge"]
            assert shown["b"]["version"]


@in_virtual_time
async def test_a_node_that_died_is_listed_as_dead_for_a_minute() -> None:
    async with Nodes("abc") as nodes:
        api = Api(nodes.a)

        nodes.b.crash()
        await asyncio.sleep(5.0)

        assert [(each["name"], each["state"]) for each in (await api.get("/v1/nodes"))["nodes"]] == [
            ("a", "alive"),
            ("b", "dead"),
            ("c", "alive"),
        ]
        await asyncio.sleep(70.0)
        assert names(await api.get("/v1/nodes")) == ["a", "c"]


@in_virtual_time
async def test_a_server_without_a_cluster_lists_itself_and_drains_and_moves_nothing() -> None:
    async with MemoryServer([]) as server:
        api = Api(server)

        [node] = (await api.get("/v1/nodes"))["nodes"]
        drained = await api.ask("POST", f"/v1/nodes/{node['name']}/drain")
        moved = await api.ask("POST", "/v1/rooms/r/move", {"to": "b"})

        assert (node["is_self"], node["state"]) == (True, "alive")
        assert drained[0] == moved[0] == 403
        assert "not a node of a cluster" in drained[1]["detail"]
        assert "not a node of a cluster" in moved[1]["detail"]


# Moving and draining


@in_virtual_time
async def test_a_room_moves_when_any_node_is_told_and_nobody_drops() -> None:
    async with Nodes("abc") as nodes:
        apis = {name: Api(server) for name, server in nodes.servers.items()}
        session, room_id = await seated(nodes, "ann", "a")
        drops: list[object] = []
        session.on_drop(drops.append)

        status, content = await apis["c"].ask("POST", f"/v1/rooms/{room_id}/move", {"to": "b"})

        assert (status, content) == (200, {"room": room_id, "node": "b"})
        assert nodes.where(room_id) == ["b"]
        assert drops == []
        assert (await apis["a"].get(f"/v1/rooms/{room_id}"))["node"] == "b"


@in_virtual_time
async def test_what_cannot_move_is_refused_with_the_reason() -> None:
    async with Nodes("ab") as nodes:
        a, b = Api(nodes.a), Api(nodes.b)
        _, table = await seated(nodes, "ann", "a")
        _, lounge = await seated(nodes, "bob", "a", "lounge")

        nowhere = await b.ask("POST", f"/v1/rooms/{table}/move", {"to": "z"})
        in_memory = await b.ask("POST", f"/v1/rooms/{lounge}/move", {"to": "b"})
        unknown = await a.ask("POST", "/v1/rooms/none/move", {"to": "b"})

        assert nowhere[0] == 404
        assert "there is no node 'z' in the cluster; there are: a, b" in nowhere[1]["detail"]
        assert in_memory[0] == 403
        assert "in memory only and cannot move" in in_memory[1]["detail"]
        assert unknown[0] == 404
        assert "no room" in unknown[1]["detail"]
        assert nodes.where(table) == ["a"]


@in_virtual_time
async def test_a_drained_node_hands_everything_over_and_takes_nothing_until_that_is_ended() -> None:
    async with Nodes("abc") as nodes:
        api = Api(nodes.c)
        for server in (nodes.a, nodes.b):
            Api(server)
        sessions = [await seated(nodes, f"p{number}", "a") for number in range(5)]
        drops: list[object] = []
        for session, _ in sessions:
            session.on_drop(drops.append)
        _, lounge = await seated(nodes, "bob", "a", "lounge")

        status, told = await api.ask("POST", "/v1/nodes/a/drain")
        assert (status, told["name"], told["is_draining"]) == (200, "a", True)
        await until(lambda: all(nodes.where(room) not in ([], ["a"]) for _, room in sessions))
        await asyncio.sleep(1.0)
        [drained] = [each for each in (await api.get("/v1/nodes"))["nodes"] if each["name"] == "a"]

        assert drops == []
        assert (drained["is_draining"], drained["is_drained"], drained["rooms"]) == (True, True, 1)
        assert drained["reasons"] == ["it is draining"]
        assert nodes.where(lounge) == ["a"]

        ended = await api.ask("DELETE", "/v1/nodes/a/drain")
        await asyncio.sleep(1.0)
        [node] = [each for each in (await api.get("/v1/nodes"))["nodes"] if each["name"] == "a"]

        assert ended[0] == 200
        assert (node["is_draining"], node["is_drained"], node["reasons"]) == (False, False, [])
        _, again = await seated(nodes, "eve", "a")
        assert nodes.where(again) == ["a"]


@in_virtual_time
async def test_the_last_node_cannot_be_drained() -> None:
    async with Nodes("ab") as nodes:
        a, _ = Api(nodes.a), Api(nodes.b)
        await a.ask("POST", "/v1/nodes/b/drain")
        await asyncio.sleep(1.0)

        status, content = await a.ask("POST", "/v1/nodes/a/drain")

        assert status == 403
        assert "no other node of the cluster can take its rooms" in content["detail"]


# Lists


@in_virtual_time
async def test_lists_have_what_is_on_all_nodes_page_by_page() -> None:
    async with Nodes("abc") as nodes:
        apis = {name: Api(server) for name, server in nodes.servers.items()}
        made = [await seated(nodes, f"p{number}", "abc"[number % 3]) for number in range(9)]
        await asyncio.sleep(0.5)

        for api in apis.values():
            for path, expected in (
                ("sessions", {session.id for session, _ in made}),
                ("rooms", {room for _, room in made}),
                ("players", {session.player_id for session, _ in made}),
            ):
                found: list[Content] = []
                cursor = ""
                while True:
                    page = await api.get(f"/v1/{path}", limit=2, cursor=cursor)
                    assert page["missing"] == []
                    found += page[path]
                    cursor = page["cursor"]
                    if not cursor:
                        break
                assert [each["id"] for each in found] == sorted({each["id"] for each in found}) or path == "rooms"
                assert {each["id"] for each in found} == expected
                assert len(found) == 9
        page = await apis["a"].get("/v1/rooms", order_by="players desc")
        assert {each["id"]: each["node"] for each in page["rooms"]} == {
            room: "abc"[number % 3] for number, (_, room) in enumerate(made)
        }


@in_virtual_time
async def test_rooms_of_all_nodes_come_in_the_order_of_the_search() -> None:
    async with Nodes("abc") as nodes:
        api = Api(nodes.b)
        for number in range(12):
            session = await nodes.connect(f"p{number}", "abc"[number % 3])
            await session.create("table", properties={"level": (7 * number) % 12})
        await asyncio.sleep(0.5)

        levels: list[int] = []
        cursor = ""
        while True:
            page = await api.get("/v1/rooms", order_by="properties.level desc", limit=5, cursor=cursor)
            levels += [each["properties"]["level"] for each in page["rooms"]]
            cursor = page["cursor"]
            if not cursor:
                break

        assert levels == sorted(range(12), reverse=True)


@in_virtual_time
async def test_a_node_that_does_not_answer_is_named() -> None:
    async with Nodes("abc") as nodes:
        api = Api(nodes.a)
        await seated(nodes, "ann", "b")
        await seated(nodes, "cat", "c")
        await asyncio.sleep(0.5)
        nodes.buses.cut(nodes.bus("b"))
        await asyncio.sleep(0.8)

        sessions = await api.get("/v1/sessions")
        rooms = await api.get("/v1/rooms")
        players = await api.get("/v1/players")
        player = await api.get("/v1/players/" + players["players"][0]["id"])
        status, problem = await api.ask("GET", "/v1/players/nobody")

        assert [page["missing"] for page in (sessions, rooms, players, player)] == [["b"]] * 4
        assert len(sessions["sessions"]) == 1
        # As it was when it was last heard.
        assert {each["node"] for each in rooms["rooms"]} == {"b", "c"}
        assert status == 404
        assert "b did not answer" in problem["detail"]


# Actions reach the node


@in_virtual_time
async def test_a_room_is_shown_and_changed_through_any_node() -> None:
    async with Nodes("abc") as nodes:
        a, _, _ = (Api(server) for server in nodes.servers.values())
        session, room_id = await seated(nodes, "ann", "b")

        state = await a.get(f"/v1/rooms/{room_id}/state")
        seats = await a.get(f"/v1/rooms/{room_id}/seats")
        changed = await a.ask("PATCH", f"/v1/rooms/{room_id}", {"name": "Friday"})
        told = await a.ask(
            "POST", f"/v1/rooms/{room_id}/broadcast", {"type": "said", "body": {"text": "x", "number": 7}}
        )
        kicked = await a.ask("DELETE", f"/v1/rooms/{room_id}/seats/{session.player_id}", query={"reason": "be nice"})
        ended = await a.ask("DELETE", f"/v1/rooms/{room_id}")

        assert state["state"] == {"said": []}
        assert [each["player"] for each in seats["seats"]] == [session.player_id]
        assert (changed[0], changed[1]["name"], changed[1]["node"]) == (200, "Friday", "b")
        assert told == (200, {"players": 1})
        assert kicked[0] == 204
        assert ended[0] == 200
        assert nodes.where(room_id) == []


@in_virtual_time
async def test_a_session_is_shown_limited_dropped_and_ended_through_any_node() -> None:
    async with Nodes("abc") as nodes:
        _, _, c = (Api(server) for server in nodes.servers.values())
        session, _ = await seated(nodes, "ann", "b")
        path = f"/v1/sessions/{session.id}"

        shown = await c.get(path)
        limited = await c.ask("PATCH", path, {"limits": {"messages_per_s": 5}})
        dropped = await c.ask("POST", f"{path}/drop")
        await until(lambda: session.drops == 1 and session.connected)
        ended = await c.ask("DELETE", path)

        assert (shown["id"], shown["node"]) == (session.id, "b")
        assert limited[1]["limits"] == {"messages_per_s": 5}
        assert (dropped[0], ended[0]) == (204, 204)
        assert nodes.where_session(session.id) == []


@in_virtual_time
async def test_a_refusal_of_the_other_node_is_passed_on() -> None:
    async with Nodes("ab") as nodes:
        a, _ = Api(nodes.a), Api(nodes.b)
        _, room_id = await seated(nodes, "ann", "b")

        kicked = await a.ask("DELETE", f"/v1/rooms/{room_id}/seats/nobody")
        changed = await a.ask("PATCH", f"/v1/rooms/{room_id}", {"name": "x", "if_version": 99})
        malformed = await a.ask("PATCH", f"/v1/rooms/{room_id}", {"nmae": "x"})

        assert (kicked[0], kicked[1]["code"]) == (404, "not_found")
        assert (changed[0], changed[1]["code"]) == (409, "conflict")
        assert (malformed[0], malformed[1]["code"]) == (400, "invalid")


@in_virtual_time
async def test_a_room_that_ended_on_another_node_is_still_shown() -> None:
    async with Nodes("abc") as nodes:
        a, b, _ = (Api(server) for server in nodes.servers.values())
        _, room_id = await seated(nodes, "ann", "b")
        await b.ask("DELETE", f"/v1/rooms/{room_id}")

        room = await a.get(f"/v1/rooms/{room_id}")

        assert room["status"] == "ended"


@in_virtual_time
async def test_everybody_on_all_nodes_is_told_something() -> None:
    async with Nodes("abc") as nodes:
        api = Api(nodes.a)
        for number, node in enumerate("abc"):
            await seated(nodes, f"p{number}", node)

        told = await api.ask("POST", "/v1/broadcast", {"text": "soon"})
        empty = await api.ask("POST", "/v1/broadcast", {})

        assert told == (200, {"sessions": 3, "missing": []})
        assert empty[0] == 400


# Timelines


@in_virtual_time
async def test_a_timeline_follows_a_session_from_node_to_node() -> None:
    async with Nodes("abc") as nodes:
        a, _, c = (Api(server) for server in nodes.servers.values())
        session, room_id = await seated(nodes, "ann", "a")
        for to in "bca":
            await a.ask("POST", f"/v1/rooms/{room_id}/move", {"to": to})
            await asyncio.sleep(1.0)

        timeline = await c.get(f"/v1/sessions/{session.id}/timeline")
        latest = await c.get(f"/v1/players/{session.player_id}/timeline")

        happened = [(each["node"], each["type"]) for each in timeline["entries"]]
        assert [each for each in happened if each[1] in {"session.opened", "session.released", "session.arrived"}] == [
            ("a", "session.opened"),
            ("a", "session.released"),
            ("b", "session.arrived"),
            ("b", "session.released"),
            ("c", "session.arrived"),
            ("c", "session.released"),
            ("a", "session.arrived"),
        ]
        texts = [each["text"] for each in timeline["entries"]]
        assert "moved to the node b" in texts
        assert f"came from the node c with its connection, with a seat in room {room_id}" in texts
        assert (timeline["node"], timeline["status"], timeline["missing"]) == ("a", "connected", [])
        assert "came from the node c" in timeline["explanation"]
        assert latest == timeline


@in_virtual_time
async def test_it_is_explained_that_the_node_of_a_session_died() -> None:
    async with Nodes("abc") as nodes:
        apis = {name: Api(server) for name, server in nodes.servers.items()}
        session, room_id = await seated(nodes, "ann", "a")
        session_id = session.id

        nodes.a.crash()
        await until(lambda: nodes.where(room_id) not in ([], ["a"]))
        [new] = nodes.where(room_id)
        other = "b" if new == "c" else "c"
        timeline = await apis[other].get(f"/v1/sessions/{session_id}/timeline")

        assert timeline["entries"][0]["text"].startswith("its node a died; taken over with a seat in room")
        assert "The node a died, and another one took the session over" in timeline["explanation"]


@in_virtual_time
async def test_a_timeline_names_the_nodes_that_did_not_answer() -> None:
    async with Nodes("abc") as nodes:
        api = Api(nodes.a)
        session, _ = await seated(nodes, "ann", "a")
        nodes.buses.cut(nodes.bus("b"))

        known = await api.get(f"/v1/sessions/{session.id}/timeline")
        status, problem = await api.ask("GET", "/v1/sessions/none/timeline")

        assert known["missing"] == ["b"]
        assert status == 404
        assert "b did not answer" in problem["detail"]


# Events and metrics


@in_virtual_time
async def test_events_and_metrics_tell_of_moves_and_deaths() -> None:
    async with Nodes("abc") as nodes:
        told: list[Event] = []
        for kind in (NodeDied, RoomMoved, RoomRecovered):
            nodes.a.on(kind, told.append)
        api = Api(nodes.a)
        _, room_id = await seated(nodes, "ann", "a")
        _, other = await seated(nodes, "bob", "b")
        await api.ask("POST", f"/v1/rooms/{room_id}/move", {"to": "c"})

        nodes.b.crash()
        await until(lambda: nodes.where(other) not in ([], ["b"]))

        moved, died = told[0], next(event for event in told if isinstance(event, NodeDied))
        assert isinstance(moved, RoomMoved)
        assert (moved.room, moved.node, died.node) == (room_id, "c", "b")
        assert all(each.node == "b" and each.has_died for each in told if isinstance(each, RoomRecovered))
        families = {each.name: each for each in await nodes.a.parts.exposition.families()}
        values = {
            (sample.name, *(value for name, value in sample.labels.items() if name != "node")): sample.value
            for each in families.values()
            for sample in each.samples
        }
        assert values["holdfast_cluster_nodes", "alive"] == 2
        assert values["holdfast_cluster_nodes", "dead"] == 1
        assert values["holdfast_nodes_died_total",] == 1
        assert values["holdfast_sessions_handed_over_total", "given"] == 1
        assert values["holdfast_room_move_pause_seconds_count",] == 1
