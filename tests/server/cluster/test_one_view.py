"""The overview, the events and the settings of all nodes, from any of them; a node that does not answer is named."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from holdfast import Invalid, Limits
from holdfast.schemas.node import EventInfo
from holdfast.schemas.projection import whole
from holdfast.testing.server import generous
from tests.server.cluster.nodes import Nodes, Say, asks, in_virtual_time, until
from tests.server.cluster.test_operators import Api, seated


async def read(events: AsyncIterator[EventInfo], count: int, *kinds: str) -> list[EventInfo]:
    """The next events of these types."""
    found: list[EventInfo] = []
    async with asyncio.timeout(60):
        async for event in events:
            if not kinds or event.type in kinds:
                found.append(event)
                if len(found) == count:
                    break
    return found


def brief(events: list[EventInfo]) -> list[tuple[str, str]]:
    return [(event.type, event.node) for event in events]


# The overview


@in_virtual_time
async def test_the_overview_of_any_node_is_that_of_all() -> None:
    async with Nodes("abc") as nodes:
        await seated(nodes, "ann", "a")
        bob = await nodes.connect("bob", "b")
        seat = await bob.create("lounge")
        lounge = await bob.join(seat.id)
        await lounge.send(Say("hello"))
        await lounge.flush()

        for name in "abc":
            shown = await Api(nodes.servers[name]).get("/v1/overview")

            assert shown["node"]["name"] == name
            assert (shown["players"], shown["sessions"]["connected"]) == (2, 2)
            assert shown["rooms"] == {"table": 1, "lounge": 1}
            assert shown["totals"]["messages_applied"] == 1
            timed = [await server.operate.overview.of(each) for each, server in nodes.servers.items()]
            spread = shown["spreads"]["turn"]
            assert spread["counts"][-1] == sum(each.spreads["turn"].counts[-1] for each in timed) > 0
            assert len(spread["counts"]) == len(spread["bounds"]) + 1
            assert [each["name"] for each in shown["nodes"]] == ["a", "b", "c"]
            assert [each["rooms"] for each in shown["nodes"]] == [1, 1, 0]
            assert [each["totals"]["messages_applied"] for each in shown["nodes"]] == [0, 1, 0]
            assert shown["missing"] == []


@in_virtual_time
async def test_one_node_alone_can_be_asked_for_through_any() -> None:
    async with Nodes("ab") as nodes:
        await seated(nodes, "ann", "b")
        api = Api(nodes.a)

        of_b, of_a = await api.get("/v1/overview", node="b"), await api.get("/v1/overview", node="a")

        assert (of_b["node"]["name"], of_b["players"], of_b["nodes"]) == ("b", 1, [])
        assert (of_a["node"]["name"], of_a["players"]) == ("a", 0)
        status, refused = await api.ask("GET", "/v1/overview", query={"node": "x"})
        assert (status, refused["code"]) == (404, "not_found")
        assert "there are: a, b" in refused["detail"]


@in_virtual_time
async def test_the_settings_and_limits_of_every_node_are_shown_by_any() -> None:
    nodes = Nodes("a")
    nodes.limits = generous(Limits(rooms_max=7))
    nodes.servers["b"] = nodes.server("b")
    async with nodes:
        api = Api(nodes.a)

        shown = {name: await api.get("/v1/settings", node=name) for name in "ab"}

        most = {
            name: next(each["value"] for each in settings["limits"] if each["name"] == "rooms_max")
            for name, settings in shown.items()
        }
        assert most["b"] == 7 != most["a"]
        assert await api.get("/v1/settings") == shown["a"]
        status, _ = await api.ask("GET", "/v1/settings", query={"node": "x"})
        assert status == 404


@in_virtual_time
async def test_a_node_that_does_not_answer_is_named_in_the_overview() -> None:
    async with Nodes("abc") as nodes:
        await seated(nodes, "ann", "b")
        nodes.bus("b").ignores = asks("overview")

        shown = await Api(nodes.a).get("/v1/overview")

        assert shown["missing"] == ["b"]
        assert [each["name"] for each in shown["nodes"]] == ["a", "c"]
        assert shown["players"] == 0


@in_virtual_time
async def test_whoever_watches_the_overview_hears_the_events_of_all_nodes() -> None:
    async with Nodes("ab") as nodes:
        async with aclosing(nodes.a.operate.overview.watch()) as looks:
            first = await anext(looks)
            await seated(nodes, "ann", "b")
            seen = await read(looks, 1, "player.joined")
            [later] = await read(looks, 1, "overview")

        assert (first.type, first.node, first.body["players"]) == ("overview", "a", 0)
        assert brief(seen) == [("player.joined", "b")]
        assert later.body["players"] == 1


# The events


@in_virtual_time
async def test_the_events_of_all_nodes_are_one_stream_with_the_node_of_each() -> None:
    async with Nodes("abc") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 3, "player.joined"))
        await asyncio.sleep(1.0)
        for player, name in (("ann", "c"), ("bob", "a"), ("cat", "b")):
            await seated(nodes, player, name)
            await asyncio.sleep(0.1)

        heard = await reading

        assert [(event.body["player"], event.node) for event in heard] == [("ann", "c"), ("bob", "a"), ("cat", "b")]
        assert all(event.body["kind"] == "table" for event in heard)


@in_virtual_time
async def test_an_event_of_another_node_has_every_field_that_one_of_this_node_has() -> None:
    async with Nodes("ab") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 2, "room.created"))
        await asyncio.sleep(1.0)
        for name in "ab":
            await seated(nodes, f"player {name}", name)

        one, other = await reading

        assert {one.node, other.node} == {"a", "b"}
        assert whole(one.body).keys() == whole(other.body).keys()
        assert whole(one.body)["info"].keys() == whole(other.body)["info"].keys()


@in_virtual_time
async def test_a_reader_goes_on_where_it_stopped_on_every_node_also_through_another_one() -> None:
    async with Nodes("ab") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 2, "player.joined"))
        await asyncio.sleep(1.0)
        await seated(nodes, "ann", "a")
        await seated(nodes, "bob", "b")
        *_, last = await reading
        for name in "ab":
            await seated(nodes, f"later on {name}", name)

        for name in "ab":
            again = await read(nodes.servers[name].operate.events.read(last.position), 2, "player.joined", "gap")

            assert {(event.type, event.node, event.body["player"]) for event in again} == {
                ("player.joined", "a", "later on a"),
                ("player.joined", "b", "later on b"),
            }


@in_virtual_time
async def test_events_of_a_node_that_joins_are_heard_from_its_first_one() -> None:
    async with Nodes("ab") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 2, "node.ready", "player.joined", "gap"))
        await asyncio.sleep(1.0)
        nodes.servers["c"] = nodes.server("c")
        await nodes.c.start()
        await seated(nodes, "ann", "c")

        assert brief(await reading) == [("node.ready", "c"), ("player.joined", "c")]


@in_virtual_time
async def test_a_node_that_does_not_answer_is_named_once_and_nothing_of_it_is_lost() -> None:
    async with Nodes("ab") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 2, "missing", "gap", "player.joined"))
        await asyncio.sleep(1.0)
        nodes.bus("b").ignores = asks("events")
        await seated(nodes, "ann", "b")
        await asyncio.sleep(10.0)
        nodes.bus("b").ignores = lambda _: False

        missing, joined = await reading

        assert brief([missing, joined]) == [("missing", "b"), ("player.joined", "b")]
        assert missing.body["why"]


@in_virtual_time
async def test_that_events_of_a_dead_node_are_lost_is_said() -> None:
    async with Nodes("abc") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 3, "gap", "node.died"))
        await asyncio.sleep(1.0)
        nodes.b.crash()

        heard = await reading

        assert sorted(brief(heard)) == [("gap", "b"), ("node.died", "a"), ("node.died", "c")]
        gap = next(event for event in heard if event.type == "gap")
        assert "dead" in gap.body["why"]
        # Whoever continues is not told of it again.
        await seated(nodes, "ann", "c")
        again = await read(nodes.c.operate.events.read(heard[-1].position), 1, "gap", "player.joined")
        assert brief(again) == [("player.joined", "c")]


@in_virtual_time
async def test_a_reader_who_was_away_while_a_node_died_hears_of_the_gap() -> None:
    async with Nodes("ab") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 1, "player.joined"))
        await asyncio.sleep(1.0)
        await seated(nodes, "ann", "a")
        [last] = await reading
        nodes.b.crash()
        await asyncio.sleep(10.0)

        [gap] = await read(nodes.a.operate.events.read(last.position), 1, "gap")

        assert gap.node == "b"


@in_virtual_time
async def test_a_storm_of_events_on_another_node_is_heard_whole_and_in_order() -> None:
    async with Nodes("ab") as nodes:
        events = nodes.a.operate.events.read()
        reading = asyncio.create_task(read(events, 2000, "session.opened"))
        await asyncio.sleep(1.0)
        for number in range(2000):
            nodes.b.open_agent(f"bot-{number}")

        heard = await reading

        assert [event.body["player"] for event in heard] == [f"agent:bot-{number}" for number in range(2000)]
        assert {event.node for event in heard} == {"b"}


@in_virtual_time
async def test_readers_that_leave_ask_the_nodes_for_nothing_more() -> None:
    async with Nodes("ab") as nodes:
        async with aclosing(nodes.a.operate.overview.watch()) as looks:
            await read(looks, 3)

        asked: list[bytes] = []
        nodes.bus("b").ignores = lambda payload: asks("events")(payload) and not asked.append(payload)  # type: ignore[func-returns-value]  # it notes them
        await asyncio.sleep(5.0)
        assert asked == []


@in_virtual_time
async def test_what_is_no_position_is_refused() -> None:
    async with Nodes("a") as nodes:
        with pytest.raises(Invalid):
            nodes.a.operate.events.read("x")


@in_virtual_time
async def test_a_stream_of_events_ends_with_its_node() -> None:
    async with Nodes("ab") as nodes:
        reading = asyncio.create_task(read(nodes.a.operate.events.read(), 1, "never"))
        await asyncio.sleep(1.0)
        await nodes.a.stop()
        await until(reading.done)

        assert reading.result() == []
