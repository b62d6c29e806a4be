"""The directory is one: rooms are found from every node, and the nodes decide together who has which."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from holdfast import Conflict, NameTaken, Player, Room, on
from holdfast.client.session import ClientSession
from holdfast.core.errors import Expired, Refused
from holdfast.core.placement import Queue
from holdfast.schemas.requests import Create, PlacedPlayer, Search, StartPlacement
from holdfast.schemas.room import RoomInfo
from holdfast.stores.port import Batch, Unknown
from holdfast.testing.store import FaultyStore
from tests.server.cluster.nodes import Hero, Lounge, Nodes, Say, Table, in_virtual_time, until

STALE_S = 0.5


class Club(Table):
    """Names are unique."""

    kind = "club"
    unique_names = True


class Bar(Club):
    """The same in memory."""

    kind = "bar"
    durability = "memory"  # type: ignore[assignment]  # of a literal that is narrower there


class SlowClub(Club):
    """Takes its time to open."""

    kind = "slow"

    async def on_create(self, config: dict[str, Any]) -> None:  # type: ignore[override]
        await asyncio.sleep(1.0)
        super().on_create(config)


class Renaming(Bar):
    """Its players name it."""

    kind = "renaming"

    @on(Say)
    def say(self, player: Player[Hero], say: Say) -> None:
        self.update(name=say.text, set={"by": player.id})
        self.update(set={"last": player.id})


ROOMS: tuple[type[Room[Any]], ...] = (Table, Lounge, Club, Bar, SlowClub, Renaming)


async def found(session: ClientSession, kind: str = "lounge", **search: Any) -> list[RoomInfo]:
    return list(await session.search(kind, **search))


# Searches


@in_virtual_time
async def test_a_search_finds_the_rooms_of_all_nodes() -> None:
    async with Nodes("abc") as nodes:
        sessions = [await nodes.connect(f"player {name}", name) for name in "abc"]
        made = [(await session.create("lounge", name=f"{n}")).id for n, session in enumerate(sessions)]

        await asyncio.sleep(STALE_S)

        for session in sessions:
            assert sorted(room.id for room in await found(session)) == sorted(made)


@in_virtual_time
async def test_what_changes_in_a_room_is_found_on_other_nodes_within_half_a_second() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        room = await ann.join_or_create("lounge", max_players=2)
        await ann.update_room(room.id, set={"map": "dust"})

        await asyncio.sleep(STALE_S)
        assert [each.players for each in await found(bob, where="properties.map = 'dust'")] == [1]
        await room.leave()
        await asyncio.sleep(STALE_S)
        assert [each.players for each in await found(bob, where="properties.map = 'dust'")] == [0]
        nodes.a.rooms.runner(room.id).end("over")
        await asyncio.sleep(STALE_S)
        assert await found(bob) == []


@in_virtual_time
async def test_pages_of_a_search_go_on_where_they_were_also_on_another_node() -> None:
    async with Nodes("abc") as nodes:
        sessions = [await nodes.connect(f"player {name}", name) for name in "abc"]
        made = [(await sessions[n % 3].create("lounge")).id for n in range(30)]
        await asyncio.sleep(STALE_S)

        seen, cursor = [], ""
        for page in range(10):
            some = await sessions[page % 3].search("lounge", limit=3, cursor=cursor)
            seen += [room.id for room in some]
            cursor = some.cursor
        assert sorted(seen) == sorted(made)
        assert cursor == ""


@in_virtual_time
async def test_a_private_room_is_found_from_other_nodes_by_its_players_alone_and_its_code_by_nobody_else() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        again = await nodes.connect("ann", "b")
        room = await ann.create("lounge", visibility="private")
        public = await ann.create("lounge")
        await asyncio.sleep(STALE_S)

        assert [(each.id, each.code) for each in await found(bob)] == [(public.id, "")]
        assert {each.id: each.code for each in await found(again)} == {room.id: room.code, public.id: public.code}


@in_virtual_time
async def test_rooms_in_memory_vanish_with_their_node_and_durable_ones_are_shown_until_they_are_taken_over() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        await ann.create("lounge")
        durable = await ann.create("table")
        await asyncio.sleep(STALE_S)

        statuses: list[tuple[str, ...]] = []
        nodes.a.crash()
        for _ in range(100):
            rooms = [*await found(bob, "lounge", where=""), *await found(bob, "table", where="")]
            status = tuple(f"{room.kind} {room.status}" for room in rooms)
            if status not in statuses[-1:]:
                statuses.append(status)
            await asyncio.sleep(0.05)

        assert (statuses[0], statuses[-1]) == (("lounge active", "table active"), ("table active",))
        assert set(statuses[1:]) <= {("table recovering",), ("table active",)}
        assert nodes.where(durable.id) == ["b"]


@in_virtual_time
async def test_a_node_that_comes_later_finds_the_rooms_of_the_others() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        made = [(await ann.create("lounge")).id for _ in range(300)]
        late = nodes.servers["c"] = nodes.server("c")
        await late.start()
        cat = await nodes.connect("cat", "c")
        await until(lambda: len(late.rooms.index.remote) == 300, within_s=5.0)

        first = await cat.search("lounge", limit=100)
        assert len({room.id for room in first} & set(made)) == 100


@in_virtual_time
async def test_what_was_told_while_a_link_was_cut_is_read_again() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        first = await ann.create("lounge")
        await asyncio.sleep(STALE_S)
        bus = nodes.bus("b")
        nodes.buses.cut(bus)
        nodes.a.rooms.runner(first.id).end("over")
        second = await ann.create("lounge")
        await asyncio.sleep(0.3)
        nodes.buses.mend(bus)

        await asyncio.sleep(1.0)
        assert [room.id for room in await found(bob)] == [second.id]


@in_virtual_time
async def test_a_watched_search_sees_rooms_of_other_nodes_appear_change_move_and_vanish_with_their_node() -> None:
    async with Nodes("abc") as nodes:
        ann, cat = await nodes.connect("ann", "a"), await nodes.connect("cat", "c")
        watch = await cat.watch("table", where="players >= 0")

        def names() -> list[str]:
            return [room.name for room in watch.rooms.values()]

        info = await ann.create("table", name="one")
        await until(lambda: names() == ["one"], within_s=STALE_S)
        await ann.update_room(info.id, name="two")
        await until(lambda: names() == ["two"], within_s=STALE_S)
        await nodes.migration("a").move(info.id, "b")
        for _ in range(100):
            await asyncio.sleep(0.01)
            assert names() == ["two"]
        lounges = await cat.watch("lounge")
        await ann.create("lounge")
        await until(lambda: len(lounges.rooms) == 1, within_s=STALE_S)
        nodes.a.crash()
        await until(lambda: len(lounges.rooms) == 0, within_s=3.0)


# Keys, names and codes


@in_virtual_time
@pytest.mark.parametrize("kind", ["table", "lounge"])
async def test_a_key_makes_one_room_whichever_nodes_are_asked(kind: str) -> None:
    async with Nodes("abc", rooms=ROOMS) as nodes:
        sessions = [await nodes.connect("ann", name) for name in "abc"]

        made = await asyncio.gather(*(each.create(kind, idempotency_key="k") for each in sessions))
        again = await sessions[2].create(kind, idempotency_key="k")

        assert len({room.id for room in (*made, again)}) == 1
        assert len({room.code for room in (*made, again)}) == 1
        with pytest.raises(Conflict):
            await sessions[1].create(kind, name="other", idempotency_key="k")


@in_virtual_time
async def test_a_backend_gets_the_same_room_for_a_key_from_every_node_and_finds_it_there() -> None:
    async with Nodes("abc", rooms=ROOMS) as nodes:
        request = Create("table", idempotency_key="k")
        made = await asyncio.gather(*(nodes.servers[name].operate.rooms.create(request) for name in "abc"))
        await asyncio.sleep(STALE_S)

        assert len({(room.id, room.code) for room in made}) == 1
        for name in "abc":
            page = await nodes.servers[name].operate.rooms.search(Search("table"))
            assert [(room.id, room.code) for room in page.rooms] == [(made[0].id, made[0].code)]


@in_virtual_time
async def test_the_key_of_a_room_that_has_ended_is_refused_on_every_node_for_a_while() -> None:
    async with Nodes("ab", rooms=ROOMS) as nodes:
        one, two = await nodes.connect("ann", "a"), await nodes.connect("ann", "b")
        room = await one.create("lounge", idempotency_key="k")
        nodes.a.rooms.runner(room.id).end("over")
        await asyncio.sleep(1.0)

        with pytest.raises(Expired):
            await two.create("lounge", idempotency_key="k")
        await asyncio.sleep(nodes.limits.ended_kept_s + 1)
        other = await two.create("lounge", idempotency_key="k")
        assert other.id != room.id


@in_virtual_time
async def test_a_node_that_dies_while_it_makes_a_room_leaves_the_key_to_another() -> None:
    async with Nodes("abc", rooms=ROOMS) as nodes:
        one, two = await nodes.connect("ann", "a"), await nodes.connect("ann", "b")
        first = asyncio.create_task(one.create("slow", idempotency_key="k"))
        await asyncio.sleep(0.3)
        second = asyncio.create_task(two.create("slow", idempotency_key="k"))
        await asyncio.sleep(0.2)
        nodes.a.crash()

        room = await second
        first.cancel()
        await asyncio.sleep(2.0)
        assert nodes.where(room.id) == ["b"]
        assert [each.id for name in "bc" for each in nodes.servers[name].rooms] == [room.id]


@in_virtual_time
async def test_a_node_that_was_paused_while_it_made_a_room_makes_no_second_one_with_the_key() -> None:
    async with Nodes("abc", rooms=ROOMS) as nodes:
        one, two = await nodes.connect("ann", "a"), await nodes.connect("ann", "b")
        first = asyncio.create_task(one.create("slow", idempotency_key="k"))
        await asyncio.sleep(0.5)
        nodes.a.pause()
        await asyncio.sleep(6.0)

        room = await two.create("slow", idempotency_key="k")
        nodes.a.wake()
        await asyncio.sleep(5.0)

        first.cancel()
        assert [each.id for name in "abc" for each in nodes.servers[name].rooms] == [room.id]


@in_virtual_time
@pytest.mark.parametrize("kind", ["club", "bar"])
async def test_a_name_is_that_of_one_room_on_all_nodes(kind: str) -> None:
    async with Nodes("abc", rooms=ROOMS) as nodes:
        sessions = [await nodes.connect(f"player {name}", name) for name in "abc"]

        made = await asyncio.gather(*(each.create(kind, name="Friday") for each in sessions), return_exceptions=True)

        rooms = [each for each in made if isinstance(each, RoomInfo)]
        assert len(rooms) == 1
        assert sum(isinstance(each, NameTaken) for each in made) == 2
        other = await sessions[0].create(kind, name="Saturday")
        with pytest.raises(NameTaken):
            await sessions[0].update_room(other.id, name="Friday")
        # A name that was given up is free for all.
        [owner] = nodes.where(rooms[0].id)
        nodes.servers[owner].rooms.runner(rooms[0].id).end("over")
        await asyncio.sleep(1.0)
        await sessions[0].update_room(other.id, name="Friday")
        await asyncio.sleep(1.0)
        assert (await sessions[1].create(kind, name="Saturday")).name == "Saturday"


@in_virtual_time
async def test_a_name_that_games_of_several_nodes_give_their_rooms_at_once_is_that_of_one() -> None:
    async with Nodes("abc", rooms=ROOMS, allow_errors=NameTaken) as nodes:
        sessions = {name: await nodes.connect(name, name) for name in "abc"}
        rooms = {
            name: await session.join_or_create(
                "renaming", name=name, properties={"of": name}, where=f"properties.of = '{name}'"
            )
            for name, session in sessions.items()
        }

        def shown(name: str) -> tuple[str, Any, Any]:
            info = nodes.servers[name].rooms.runner(rooms[name].id).entry.info(sees_code=False)
            return info.name, info.properties.get("by"), info.properties.get("last")

        await asyncio.gather(*(room.send(Say("Friday")) for room in rooms.values()))
        await asyncio.sleep(STALE_S)

        infos = [shown(name) for name in "abc"]
        [winner] = [name for name, info in zip("abc", infos, strict=True) if info[0] == "Friday"]
        # A refused update changes nothing; the next one of the same turn is another.
        losers = [name for name in "abc" if name != winner]
        assert [shown(name) for name in losers] == [(name, None, name) for name in losers]
        assert shown(winner) == ("Friday", winner, winner)
        # What is given up is free, everywhere.
        await rooms[winner].send(Say("Saturday"))
        await asyncio.sleep(STALE_S)
        await rooms[losers[0]].send(Say("Friday"))
        await asyncio.sleep(STALE_S)
        assert (shown(winner))[0] == "Saturday"
        assert (shown(losers[0]))[0] == "Friday"
        with pytest.raises(NameTaken):
            await sessions[losers[1]].create("renaming", name="Saturday")


@in_virtual_time
async def test_a_room_that_was_taken_over_while_it_was_made_keeps_its_name_and_its_key() -> None:
    async with Nodes("abc", rooms=ROOMS) as nodes:
        one = await nodes.connect("ann", "a")
        saved: list[str] = []

        def pause_when_saved(batch: Batch, store: FaultyStore) -> None:
            if batch[0].key.startswith("name/"):
                # The next commit is that of the room: it is written, and the node does not hear so.
                store.fail(Unknown("no answer"), is_written=True)
                store.latency_s = 0.01
            elif batch[0].key.startswith("room/") and not saved:
                saved.append(batch[0].key.removeprefix("room/"))
                nodes.a.pause()

        nodes.disk.on_written = pause_when_saved
        first = asyncio.create_task(one.create("club", name="Friday", idempotency_key="k"))
        await until(lambda: bool(saved))
        await until(lambda: nodes.where(saved[0]) in (["b"], ["c"]))
        nodes.a.wake()
        await asyncio.sleep(5.0)
        first.cancel()

        [other] = {"b", "c"} - set(nodes.where(saved[0]))
        again, bob = await nodes.connect("ann", other), await nodes.connect("bob", other)
        with pytest.raises(NameTaken):
            await bob.create("club", name="Friday")
        assert (await again.create("club", name="Friday", idempotency_key="k")).id == saved[0]
        assert [each.id for name in "abc" for each in nodes.servers[name].rooms] == saved


@in_virtual_time
async def test_the_names_of_a_dead_nodes_rooms_in_memory_are_free_and_those_of_durable_ones_are_not() -> None:
    async with Nodes("ab", rooms=ROOMS) as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        await ann.create("bar", name="Friday")
        await ann.create("club", name="Friday")
        nodes.a.crash()
        await asyncio.sleep(3.0)

        assert (await bob.create("bar", name="Friday")).name == "Friday"
        with pytest.raises(NameTaken):
            await bob.create("club", name="Friday")


@in_virtual_time
async def test_of_two_rooms_that_have_drawn_the_same_code_the_younger_gets_another() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        old = await ann.create("table")
        runner = nodes.b.rooms.runner((await bob.create("table")).id)
        nodes.b.rooms.names.forget(runner.id, runner.context.listing)
        nodes.b.rooms.names.is_code_elsewhere = lambda _: False
        runner.context.listing.created_at += 1
        runner.context.listing.code = old.code
        nodes.b.rooms.names.add(runner.id, runner.context.listing)
        runner.context.entry_changed()
        nodes.a.rooms.runner(old.id).context.entry_changed()
        await asyncio.sleep(STALE_S)

        codes = {nodes.servers[n].rooms.runner(i).context.listing.code for n, i in (("a", old.id), ("b", runner.id))}
        assert len(codes) == 2
        assert nodes.a.rooms.runner(old.id).context.listing.code == old.code


# join_or_create


@in_virtual_time
async def test_players_of_all_nodes_who_ask_at_once_share_rooms_and_no_room_is_overfull() -> None:
    async with Nodes("abc", rooms=ROOMS) as nodes:
        random = Random(7)
        sessions = [await nodes.connect(f"player {n}", random.choice("abc")) for n in range(60)]

        rooms = await asyncio.gather(*(each.join_or_create("lounge") for each in sessions))

        counts = Counter(room.id for room in rooms)
        assert sorted(counts.values(), reverse=True) == [8] * 7 + [4]
        assert all(len(nodes.where(room_id)) == 1 for room_id in counts)
        for session in sessions:
            assert len(nodes.where_session(session.id)) == 1


@in_virtual_time
async def test_an_open_room_of_another_node_is_joined_instead_of_making_one() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        await asyncio.sleep(STALE_S)

        for number, name in enumerate("bcabcab"):
            session = await nodes.connect(f"player {number}", name)
            assert (await session.join_or_create("table")).id == room.id
        ninth = await nodes.connect("ninth", "b")
        assert (await ninth.join_or_create("table")).id != room.id


@in_virtual_time
async def test_a_player_is_brought_back_to_a_seat_on_another_node() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        other = await bob.join_or_create("table", max_players=2, properties={"map": "x"}, where="properties.map = 'x'")
        room = await ann.join_or_create("table", properties={"map": "y"}, where="properties.map = 'y'")
        nodes.a.link(ann).cut()
        nodes.a.dialer(ann).delay_s = 100.0
        again = await nodes.connect("ann", "b")

        assert [each.id for each in await again.my_rooms()] == [room.id]
        joined = await again.join_or_create("table")

        assert joined.id == room.id != other.id
        assert nodes.where_session(again.id) == ["a"]


@in_virtual_time
async def test_the_node_that_decides_dies_and_nobody_gets_two_seats() -> None:
    for seed in range(3):
        async with Nodes("abc", seed=seed) as nodes:
            sessions = [await nodes.connect(f"player {n}", "ab"[n % 2], "c") for n in range(12)]
            joining = [asyncio.create_task(each.join_or_create("table")) for each in sessions]
            await asyncio.sleep(0.004 * (seed + 1))
            nodes.c.crash()

            rooms = await asyncio.gather(*joining)
            seats = Counter(
                seat.player_id
                for name in "ab"
                for room in nodes.servers[name].rooms
                for seat in nodes.servers[name].rooms.runner(room.id).seats
            )
            assert seats == {f"player {n}": 1 for n in range(12)}
            assert max(Counter(room.id for room in rooms).values()) <= 8


@in_virtual_time
async def test_a_player_can_play_in_many_rooms_of_other_nodes_one_after_the_other() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        cat = await nodes.connect("cat", "a")
        for number in range(8):
            room = await (ann, bob)[number % 2].create("lounge")
            joined = await cat.join(room.id)
            await joined.leave()


@in_virtual_time
async def test_a_room_that_cannot_be_made_says_why_to_all_who_asked_for_it() -> None:
    class Closed(Lounge):
        kind = "closed"

        def on_create(self, config: dict[str, Any]) -> None:
            raise Refused("closed on Mondays")

    async with Nodes("ab", rooms=(*ROOMS, Closed)) as nodes:
        sessions = [await nodes.connect(f"player {n}", "ab"[n % 2]) for n in range(4)]
        answers = await asyncio.gather(*(each.join_or_create("closed") for each in sessions), return_exceptions=True)
        assert {str(each) for each in answers} == {"closed on Mondays"}


# Placements


@in_virtual_time
async def test_a_placement_chooses_among_all_nodes_by_region_and_latency() -> None:
    async with Nodes("ab", queues=[Queue("all", ("*",))], region=lambda name: f"region-{name}") as nodes:
        ann = await nodes.connect("ann", "a")
        await asyncio.sleep(STALE_S)

        async def placed(near: str, far: str) -> RoomInfo:
            players = [PlacedPlayer("ann", {f"region-{near}": 10.0, f"region-{far}": 90.0})]
            started = nodes.a.parts.placements.start(StartPlacement("all", "lounge", players=players), "ann")
            await until(lambda: nodes.a.parts.placements.get(started.id).status == "fulfilled")
            info = nodes.a.parts.placements.get(started.id)
            assert info.node == near
            assert info.room is not None
            return info.room

        assert nodes.where((await placed("b", "a")).id) == ["b"]
        here = await placed("a", "b")
        assert nodes.where(here.id) == ["a"]
        assert (await ann.join(here.id)).id == here.id
