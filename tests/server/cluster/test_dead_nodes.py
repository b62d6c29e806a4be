"""A node dies, hangs or is cut off: what it had goes on elsewhere, and nothing of it counts twice."""

import asyncio
from typing import Any

import pytest

from holdfast import Effect, Player, on
from holdfast.client.room import ClientRoom
from holdfast.client.session import ClientSession
from holdfast.cluster.membership import MemberState
from holdfast.stores.port import Entry
from tests.server.cluster.nodes import Hero, Nodes, Said, Say, Table, in_virtual_time, store_of, until


async def texts(room: ClientRoom, count: int, within_s: float = 60.0) -> list[str]:
    async with asyncio.timeout(within_s):
        return [(await room.receive(Said)).text for _ in range(count)]


def resumes(session: ClientSession) -> list[Any]:
    """What the client hears each time that it is back."""
    heard: list[Any] = []
    session.on_resume(heard.append)
    return heard


def state_of(nodes: Nodes, seen_by: str, name: str) -> MemberState | None:
    """What one node thinks of another."""
    cluster = nodes.servers[seen_by].parts.cluster
    assert cluster is not None
    members = cluster.node.watch.membership.members.values()
    return next((each.state for each in members if each.beat.name == name), None)


@in_virtual_time
async def test_durable_rooms_of_a_dead_node_play_on_within_three_seconds_although_nobody_asks_for_them() -> None:
    async with Nodes("abc") as nodes:
        loop = asyncio.get_running_loop()
        ann = await nodes.connect("ann", "a")
        rooms = [(await ann.create("table")).id for _ in range(50)]

        nodes.a.crash()
        died_at = loop.time()
        await until(lambda: all(len(nodes.where(room_id)) == 1 for room_id in rooms))

        assert loop.time() - died_at <= 3.0
        owners = {nodes.where(room_id)[0] for room_id in rooms}
        assert owners == {"b", "c"}


@in_virtual_time
async def test_players_of_a_memory_room_on_a_dead_node_hear_reset_at_once_and_not_after_a_grace() -> None:
    async with Nodes("abc", grace_s=300.0) as nodes:
        loop = asyncio.get_running_loop()
        ann, bob = await nodes.connect("ann", "a", "b"), await nodes.connect("bob", "b")
        anns = await ann.join_or_create("lounge")
        await bob.join(anns.id)
        anns_resumes, bobs_resumes = resumes(ann), resumes(bob)

        nodes.a.crash()
        died_at = loop.time()
        await until(lambda: bool(anns_resumes and bobs_resumes))

        assert [each.kind for each in (*anns_resumes, *bobs_resumes)] == ["reset", "reset"]
        assert loop.time() - died_at <= 5.0
        again = await ann.join_or_create("lounge")
        assert again.id != anns.id


@in_virtual_time
async def test_a_paused_node_wakes_and_nothing_that_it_says_or_writes_counts() -> None:
    async with Nodes("abc") as nodes:
        ann, bob = await nodes.connect("ann", "a", "b", "c"), await nodes.connect("bob", "b", "c")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        await anns.send(Say("before"))
        await texts(bobs, 1)
        await texts(anns, 1)

        nodes.a.pause()
        await bobs.send(Say("while it hangs"))
        assert await texts(bobs, 1) == ["bob:while it hangs"]
        # The one whose link is still open to it says something that it hears as soon as it wakes.
        await anns.send(Say("to the paused one"))
        nodes.a.wake()

        assert sorted(await texts(anns, 2)) == ["ann:to the paused one", "bob:while it hangs"]
        assert await texts(bobs, 1) == ["ann:to the paused one"]
        await until(lambda: len(nodes.where(anns.id)) == 1)
        [owner] = nodes.where(anns.id)
        assert owner != "a"
        room = nodes.servers[owner].rooms.get(anns.id)
        assert isinstance(room, Table)
        said = [each for each in room.state.said if not each.startswith("drop")]
        assert said == ["ann:before", "bob:while it hangs", "ann:to the paused one"]


@in_virtual_time
async def test_a_false_alarm_costs_a_pause_and_no_data() -> None:
    async with Nodes("abc") as nodes:
        ann, bob = await nodes.connect("ann", "a", "b", "c"), await nodes.connect("bob", "b", "c")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)

        async def talk(room: ClientRoom) -> None:
            for number in range(300):
                await room.send(Say(str(number)))
                await asyncio.sleep(0.1)

        talking = [asyncio.create_task(talk(room)) for room in (anns, bobs)]
        # It lives, writes and hears its clients, but the others do not hear it for a while: they take its rooms.
        await asyncio.sleep(2.0)
        nodes.buses.cut(nodes.bus("a"))
        await until(lambda: state_of(nodes, "b", "a") is MemberState.DEAD)
        await asyncio.sleep(3.0)
        nodes.buses.mend(nodes.bus("a"))
        heard = await asyncio.gather(*(texts(room, 600, 200.0) for room in (anns, bobs)))
        await asyncio.gather(*talking)

        assert heard[0] == heard[1]
        for name in ("ann", "bob"):
            assert [each for each in heard[0] if each.startswith(name)] == [f"{name}:{n}" for n in range(300)]
        await until(lambda: len(nodes.where(anns.id)) == 1)


@in_virtual_time
async def test_a_node_without_its_store_holds_durable_rooms_still_and_plays_rooms_in_memory_on() -> None:
    async with Nodes("a") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "a")
        table, lounge = await ann.join_or_create("table"), await bob.join_or_create("lounge")
        store = store_of(nodes, "a")

        store.is_full = True
        await table.send(Say("unsaved"))
        await lounge.send(Say("in memory"))

        assert await texts(lounge, 1) == ["bob:in memory"]
        with pytest.raises(TimeoutError):
            await texts(table, 1, 20.0)
        store.is_full = False
        assert await texts(table, 1) == ["ann:unsaved"]


@in_virtual_time
async def test_two_nodes_vanish_together_and_the_third_has_everything() -> None:
    async with Nodes("abc") as nodes:
        loop = asyncio.get_running_loop()
        ann, bob = await nodes.connect("ann", "a", "c"), await nodes.connect("bob", "b", "c")
        anns, bobs = await ann.join_or_create("table"), await bob.create("table")
        await bob.join(bobs.id)
        await anns.send(Say("1"))
        await texts(anns, 1)

        nodes.a.crash()
        nodes.b.crash()
        died_at = loop.time()
        await until(lambda: nodes.where(anns.id) == nodes.where(bobs.id) == ["c"])

        assert loop.time() - died_at <= 6.0
        await anns.send(Say("2"))
        assert await texts(anns, 1) == ["ann:2"]


@in_virtual_time
async def test_nothing_of_a_room_leaves_the_node_that_takes_it_before_its_claim_is_saved() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join_or_create("table")
        await room.send(Say("1"))
        await texts(room, 1)
        heard = resumes(ann)

        store = store_of(nodes, "b")
        store.is_full = True
        nodes.a.crash()
        await until(lambda: nodes.where(room.id) == ["b"])
        await asyncio.sleep(1.0)
        assert heard == []
        store.is_full = False

        await until(lambda: bool(heard))
        assert heard[0].kind == "resumed"


@in_virtual_time
async def test_a_node_that_comes_back_takes_nothing_from_those_that_took_its_rooms() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join_or_create("table")
        nodes.a.crash()
        await room.send(Say("1"))
        await texts(room, 1)
        await nodes.a.start()

        await room.send(Say("2"))

        assert await texts(room, 1) == ["ann:2"]
        assert nodes.where(room.id) == ["b"]


@in_virtual_time
async def test_a_session_that_has_ended_is_not_restored_before_its_end_is_saved() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        bob = await nodes.connect("bob", "a")
        room = await ann.join_or_create("table")
        await bob.join(room.id)
        session_id, heard = ann.id, resumes(ann)

        store_of(nodes, "a").is_full = True
        session = nodes.a.sessions.get(session_id)
        assert session is not None
        nodes.a.link(ann).cut()
        session.end("bad manners")
        await until(lambda: bool(heard))
        assert heard[0].kind == "reset"
        store_of(nodes, "a").is_full = False
        await asyncio.sleep(5.0)

        assert nodes.where_session(session_id) == []
        assert nodes.a.parts.recovery is not None
        assert nodes.a.parts.recovery.set_aside == {}


class Shop(Table):
    """Buys once, and closes."""

    kind = "shop"

    @on(Say)
    def say(self, player: Player[Hero], say: Say) -> None:
        self.effect("pay", say.text)
        self.broadcast(Said(say.text, 1))
        self.end()
        self.close()


@in_virtual_time
async def test_what_a_room_did_outside_just_before_its_end_is_done_although_its_node_died() -> None:
    is_open, paid = False, []

    async def pay(effect: Effect) -> None:
        if not is_open:
            raise ConnectionError("the bank is closed")
        paid.append((effect.key, effect.payload))

    async with Nodes("abc", rooms=(Shop,), effects={"pay": pay}) as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join((await ann.create("shop")).id)
        await room.send(Say("a sword"))
        await room.receive(Said)
        await until(lambda: nodes.where(room.id) == [])
        await asyncio.sleep(3)

        nodes.a.crash()
        is_open = True
        await until(lambda: bool(paid))
        await asyncio.sleep(3)

        assert [payload for _, payload in paid] == ["a sword"]
        assert await store_of(nodes, "b").list("effect") == []


@in_virtual_time
async def test_a_player_whose_room_was_read_as_it_was_before_they_came_keeps_the_seat(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        first = await ann.join((await ann.create("table")).id)
        await first.send(Say("one"))
        assert await texts(first, 1) == ["ann:one"]
        before = await store_of(nodes, "a").get(f"room/{first.id}")
        assert before is not None
        bob = await nodes.connect("bob", "a", "b")
        his = await bob.join(first.id)
        await his.send(Say("two"))
        assert await texts(his, 1) == ["bob:two"]
        await asyncio.sleep(3)
        assert nodes.b.parts.cluster is not None
        # Nothing is read ahead: the session is asked for, and the room is read for it.
        nodes.b.parts.cluster.takeover.suspects.listed = lambda _: {}
        store, reads = store_of(nodes, "b"), 0
        get = store.get

        async def behind(key: str) -> Entry | None:
            nonlocal reads
            entry = await get(key)
            if key == f"room/{first.id}" and entry is not None and reads < 3:
                # As from a NATS server that lags behind.
                reads += 1
                return before
            return entry

        store.get = behind  # type: ignore[method-assign]  # what it reads first is old
        nodes.a.crash()
        await his.send(Say("three"))

        assert await texts(his, 1) == ["bob:three"]
        assert reads == 3
        assert nodes.b.parts.recovery is not None
        assert nodes.b.parts.recovery.set_aside == {}
        assert [record.message for record in caplog.records if "set aside" in record.message] == []


@in_virtual_time
async def test_a_session_that_does_not_fit_its_room_as_that_was_read_is_read_again_and_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with Nodes("ab") as nodes:
        bob = await nodes.connect("bob", "a", "b")
        bare = (await bob.create("table")).id
        await asyncio.sleep(1)
        before = await store_of(nodes, "a").get(f"room/{bare}")
        his = await bob.join(bare)
        await his.send(Say("one"))
        assert await texts(his, 1) == ["bob:one"]
        await asyncio.sleep(3)
        assert nodes.b.parts.cluster is not None
        nodes.b.parts.cluster.takeover.suspects.listed = lambda _: {}
        store, reads = store_of(nodes, "b"), 0
        get = store.get

        async def behind(key: str) -> Entry | None:
            nonlocal reads
            reads += key == f"room/{bare}"
            return before if key == f"room/{bare}" and reads <= 2 else await get(key)

        store.get = behind  # type: ignore[method-assign]  # what it reads first is old
        nodes.a.crash()
        await his.send(Say("two"))

        assert await texts(his, 1) == ["bob:two"]
        assert any("it is read again" in record.message for record in caplog.records)
        assert [record.message for record in caplog.records if "set aside" in record.message] == []
