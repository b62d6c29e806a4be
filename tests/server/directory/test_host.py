"""One of the players may be the host: named, elected when there is none, and never for the while of a drop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import HostChanged, NotAllowed, NotFound, Player, Refused, RoomUpdated
from holdfast.core.room import context_of
from tests.server.directory.test_lifecycle import events_of
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Hero, Say, Table, table


def name(player: Player[Any] | None) -> str:
    return player.id if player is not None else "nobody"


class Led(Table):
    """Tells who leads it. In memory unless it is said otherwise."""

    durability = "memory"  # type: ignore[assignment]  # a table that does not last
    election = "oldest"

    def on_host_changed(self, old: Player[Hero] | None, new: Player[Hero] | None) -> Any:
        self.story.append(f"host {name(old)} -> {name(new)}")

    # What can be done

    def crown(self, player: Player[Hero], who: str) -> None:
        self.name_host(self.player(who))

    def succeed(self, player: Player[Hero], who: str) -> None:
        self.successor = who


def host_of(bench: Bench, sitting: Sitting) -> str:
    return name(bench.room(sitting).host)


def changes(sitting: Sitting) -> list[str]:
    """The hosts that a member was told of."""
    return [message.player for message in sitting.heard if isinstance(message, HostChanged)]


async def settled(sitting: Sitting) -> None:
    """Everything that was said before has been applied, and its answer heard."""
    await sitting.send(Say("settled"))
    await sitting.has_heard(f"{sitting.session.player_id}:settled")


# Elections


@in_virtual_time
async def test_who_joins_first_is_the_host_and_the_game_hears_of_the_player_first() -> None:
    kind = table(Led)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await settled(bob)

        assert kind.story == ["join ada", "host nobody -> ada", "join bob"]
        assert (changes(ada), changes(bob)) == (["ada"], [])
        assert ada.room.host == bob.room.host == host_of(bench, ada) == "ada"
        assert ada.room.info is not None
        assert ada.room.info.host == "ada"


@in_virtual_time
async def test_without_an_election_nobody_is_the_host() -> None:
    kind = table(Led, election="none")
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.room.leave()
        await settled(bob)

        assert (host_of(bench, bob), changes(bob)) == ("nobody", [])
        assert not [line for line in kind.story if line.startswith("host")]


@in_virtual_time
async def test_without_an_election_a_successor_waits_for_the_host_to_go() -> None:
    async with Bench(table(Led, election="none")) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.send(Do("succeed", ["bob"]))
        await settled(ada)

        await bench.sit("cyd")
        assert host_of(bench, ada) == "nobody"
        await ada.send(Do("crown", ["ada"]))
        await settled(ada)
        await ada.room.leave()
        await settled(bob)

        assert host_of(bench, bob) == "bob"


@in_virtual_time
async def test_when_the_host_leaves_the_next_is_elected_before_the_game_hears_of_the_leave() -> None:
    kind = table(Led)
    async with Bench(kind) as bench:
        ada, bob, cyd = [await bench.sit(each) for each in ("ada", "bob", "cyd")]

        await ada.room.leave()
        await settled(bob)
        await settled(cyd)

        assert kind.story[-2:] == ["host ada -> bob", "leave ada left"]
        assert changes(bob) == changes(cyd) == ["bob"]
        assert bob.room.host == cyd.room.host == host_of(bench, bob) == "bob"
        shown = await bob.session.search(where="host = 'bob'")
        assert [info.host for info in shown] == ["bob"]


@in_virtual_time
async def test_when_the_last_has_left_nobody_is_the_host_and_who_comes_next_is() -> None:
    kind = table(Led)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        room = bench.room(ada)
        await ada.room.leave()
        await a_moment()
        assert room.host is None

        bob = await bench.connect("bob")
        await bob.join(room.id)

        assert name(room.host) == "bob"
        assert kind.story[-4:] == ["host ada -> nobody", "leave ada left", "join bob", "host nobody -> bob"]


@in_virtual_time
async def test_a_host_who_drops_is_the_host_while_the_seat_is_held_and_no_longer() -> None:
    kind = table(Led, grace_s=60.0)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.session.suspend()

        await a_moment(59.0)
        assert (host_of(bench, bob), changes(bob)) == ("ada", [])
        await a_moment(2.0)

        assert (host_of(bench, bob), changes(bob)) == ("bob", ["bob"])
        assert kind.story[-2:] == ["host ada -> bob", "leave ada grace_ended"]


@in_virtual_time
async def test_a_host_who_drops_and_returns_has_been_the_host_all_along() -> None:
    kind = table(Led, grace_s=60.0)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")

        bench.link(ada).cut()
        await ada.back()
        await settled(bob)

        assert (host_of(bench, bob), changes(bob)) == ("ada", [])


@in_virtual_time
async def test_a_host_who_comes_back_from_another_device_is_still_the_host() -> None:
    async with Bench(table(Led)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")

        again = await bench.connect("ada")
        await again.join(ada.room.id)
        await settled(bob)

        assert (host_of(bench, bob), changes(bob)) == ("ada", [])


@in_virtual_time
async def test_who_is_here_goes_before_who_is_away() -> None:
    async with Bench(table(Led, grace_s=60.0)) as bench:
        ada, bob, cyd = [await bench.sit(each) for each in ("ada", "bob", "cyd")]
        await bob.session.suspend()

        await ada.room.leave()
        await settled(cyd)

        assert host_of(bench, cyd) == "cyd"


@in_virtual_time
async def test_who_has_the_shortest_round_trip_is_elected() -> None:
    async with Bench(table(Led, election="latency")) as bench:
        ada, bob, cyd = [await bench.sit(each) for each in ("ada", "bob", "cyd")]
        room = bench.room(ada)
        for who, latency_ms in (("bob", 80.0), ("cyd", 20.0)):
            room.player(who).session.latency.smoothed_ms = latency_ms

        await ada.room.leave()
        await settled(cyd)

        assert host_of(bench, bob) == "cyd"


class Shy(Led):
    """Takes its time with everybody but ada, and turns eve away."""

    async def on_join(self, player: Player[Hero]) -> None:
        super().on_join(player)
        if player.id != "ada":
            await self.door.wait()
        if player.id == "eve":
            raise Refused("not you")


@in_virtual_time
async def test_who_is_turned_away_was_never_the_host() -> None:
    kind = table(Shy)
    async with Bench(kind) as bench:
        room = await bench.server.create_room("table")
        eve, bob = await bench.connect("eve"), await bench.connect("bob")

        with pytest.raises(Refused, match="not you"):
            await eve.join(room.id)
        await bob.join(room.id)

        assert [line for line in kind.story if line.startswith("host")] == ["host nobody -> bob"]


@in_virtual_time
async def test_who_has_not_been_heard_of_is_not_elected_before() -> None:
    kind = table(Led, door=asyncio.Event())
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.connect("bob")
        await ada.send(Do("slow", ["a long turn"]))
        await a_moment()
        coming = asyncio.create_task(bob.join(ada.room.id))
        await a_moment()
        bench.room(ada).player("ada").kick()

        kind.door.set()
        await coming

        assert kind.story == [
            "join ada",
            "host nobody -> ada",
            "host ada -> nobody",
            "leave ada kicked",
            "join bob",
            "host nobody -> bob",
        ]


# Who is the host while somebody leaves


class Mourned(Led):
    """Everybody owns a hat, and says who the host is whenever somebody leaves."""

    orphans = "heir"

    def on_join(self, player: Player[Hero]) -> Any:
        self.own(player, f"hat of {player.id}")

    def on_leave(self, player: Player[Hero], reason: object) -> Any:
        self.story.append(f"leave {player.id}, host {name(self.host)}")

    def heir(self, player: Player[Hero], object_id: str) -> Player[Hero] | None:
        self.story.append(f"heir of {player.id}, host {name(self.host)}")
        return self.host

    def expel(self, player: Player[Hero], who: str) -> None:
        other = self.player(who)
        assert other is not None
        other.kick("go")
        self.story.append(f"expelled {who}, host {name(self.host)}")

    def play(self, player: Player[Hero]) -> None:
        self.start()

    def stop(self, player: Player[Hero]) -> None:
        self.end()


Goes = Callable[[Bench, Sitting, Sitting], Coroutine[Any, Any, object]]


async def leaves(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    await ada.room.leave()


async def is_kicked(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    bench.room(ada).player("ada").kick("go")


async def expels_herself(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    await ada.send(Do("expel", ["ada"]))


async def ends_the_session(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    await ada.session.close()


async def is_signed_out(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    bench.room(ada).player("ada").session.end("signed out")


async def stays_away(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    await ada.session.suspend()
    await a_moment(31.0)


async def drops(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    await ada.session.suspend()


async def is_away_at_the_end_of_the_round(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    await bob.send(Do("play"))
    await ada.session.suspend()
    await bob.send(Do("stop"))


async def stays_away_after_a_crash(bench: Bench, ada: Sitting, bob: Sitting) -> None:
    await ada.session.suspend()
    await bench.restart()
    await bob.back()
    await a_moment(31.0)


@pytest.mark.parametrize(
    ("goes", "settings"),
    [
        (leaves, {}),
        (leaves, {"durability": "commit"}),
        (is_kicked, {}),
        (expels_herself, {}),
        (ends_the_session, {}),
        (is_signed_out, {}),
        (stays_away, {}),
        (drops, {"disconnect": "hard"}),
        (drops, {"keep_before_start": False}),
        (is_away_at_the_end_of_the_round, {}),
        (stays_away_after_a_crash, {"durability": "commit"}),
    ],
    ids=lambda each: each.__name__ if callable(each) else "-".join(map(str, each.values())),
)
@in_virtual_time
async def test_whoever_hears_that_the_host_left_sees_the_next_one(goes: Goes, settings: dict[str, Any]) -> None:
    kind = table(Mourned, **settings)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")

        await goes(bench, ada, bob)
        await settled(bob)
        await a_moment()

        room = bench.room(bob)
        told = [line for line in kind.story if line.startswith(("host ada", "leave", "heir", "expelled"))]
        if goes is expels_herself:
            assert told.pop(0) == "expelled ada, host bob"
        assert told == ["host ada -> bob", "leave ada, host bob", "heir of ada, host bob"]
        assert name(room.host) == "bob"
        assert room.player("bob").owned == {"hat of ada", "hat of bob"}


@in_virtual_time
async def test_when_the_last_leaves_there_is_no_host_to_be_seen() -> None:
    kind = table(Mourned)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        room = bench.room(ada)

        await ada.room.leave()
        await a_moment()

        assert kind.story[-2:] == ["leave ada, host nobody", "heir of ada, host nobody"]
        assert len(room.objects) == 0


@in_virtual_time
async def test_who_leaves_a_room_that_ends_is_not_its_host() -> None:
    kind = table(Mourned)
    async with Bench(kind) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")

        bench.room(ada).close()
        await a_moment()

        assert [line for line in kind.story if line.startswith("leave")] == [
            "leave ada, host nobody",
            "leave bob, host nobody",
        ]


# Named hosts


@in_virtual_time
async def test_the_game_names_the_host() -> None:
    kind = table(Led, election="none")
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        version = context_of(bench.room(ada)).listing.version

        await ada.send(Do("crown", ["bob"]), Do("crown", ["bob"]), Do("crown", ["nobody"]), Do("crown", ["ada"]))
        await settled(ada)
        await settled(bob)

        assert kind.story[2:] == ["host nobody -> bob", "host bob -> nobody", "host nobody -> ada"]
        assert changes(ada) == changes(bob) == ["bob", "", "ada"]
        assert context_of(bench.room(ada)).listing.version == version + 3


@in_virtual_time
async def test_one_who_is_not_in_the_room_cannot_be_named() -> None:
    async with Bench(table(Led)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        room = bench.room(ada)
        gone = room.player("bob")
        await bob.room.leave()
        await a_moment()

        with pytest.raises(NotFound, match="bob"):
            room.name_host(gone)

        assert host_of(bench, ada) == "ada"


@pytest.mark.parametrize("election", ["none", "oldest", "latency"])
@in_virtual_time
async def test_the_named_successor_is_the_next_host_and_then_no_successor_any_more(election: str) -> None:
    async with Bench(table(Led, election=election)) as bench:
        ada, bob, cyd = [await bench.sit(each) for each in ("ada", "bob", "cyd")]
        await ada.send(Do("crown", ["ada"]), Do("succeed", ["cyd"]))
        await settled(ada)

        await ada.room.leave()
        await settled(bob)
        room = bench.room(bob)
        assert (name(room.host), room.successor) == ("cyd", "")
        await cyd.room.leave()
        await settled(bob)

        assert name(room.host) == ("nobody" if election == "none" else "bob")


@in_virtual_time
async def test_the_host_passes_the_role_on_with_an_update_that_counts_once() -> None:
    kind = table(Led)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        version = context_of(bench.room(ada)).listing.version

        info = await ada.room.update(host="bob", name="bob's")
        await settled(bob)

        assert (info.host, info.version, info.name) == ("bob", version + 1, "bob's")
        assert [message for message in bob.heard if isinstance(message, RoomUpdated | HostChanged)] == [
            RoomUpdated(info),
            HostChanged("bob"),
        ]
        assert kind.story[-1] == "host ada -> bob"
        cyd = await bench.sit("cyd")
        with pytest.raises(NotAllowed):
            await cyd.room.update(host="cyd")


@in_virtual_time
async def test_an_update_that_names_the_present_host_changes_no_host() -> None:
    kind = table(Led)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        before = list(kind.story)

        await ada.room.update(host="ada")
        await settled(ada)

        assert changes(ada) == ["ada"]
        assert kind.story == before


@in_virtual_time
async def test_a_closing_room_elects_nobody() -> None:
    kind = table(Led)
    async with Bench(kind) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")

        bench.room(ada).close()
        await a_moment()

        assert [line for line in kind.story if line.startswith("host")] == ["host nobody -> ada"]


@in_virtual_time
async def test_who_watches_the_node_hears_of_hosts_and_sees_whose_seat_it_is() -> None:
    async with Bench(table(Led)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        seats = bench.server.operate.rooms.seats(ada.room.id)
        await ada.room.leave()
        await settled(bob)

        found = await events_of(bench.server.parts, "host.changed")

        assert {seat.player: seat.is_host for seat in seats} == {"ada": True, "bob": False}
        assert [event.body["player"] for event in found] == ["ada", "bob"]


# Durable rooms


@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
@in_virtual_time
async def test_the_host_and_the_successor_are_who_they_were_after_a_crash(durability: str) -> None:
    kind = table(Led, durability=durability, checkpoint_s=1.0)
    async with Bench(kind) as bench:
        ada, bob, _ = [await bench.sit(each) for each in ("ada", "bob", "cyd")]
        await ada.send(Do("crown", ["bob"]), Do("succeed", ["cyd"]))
        await settled(ada)
        await a_moment(2.0)
        version = context_of(bench.room(ada)).listing.version

        await bench.restart()
        room = bench.server.rooms.runner(ada.room.id).room
        assert (name(room.host), room.successor, context_of(room).listing.version) == ("bob", "cyd", version)
        await until(lambda: all(player.connected for player in room.players))
        await bob.room.leave()
        await settled(ada)

        assert name(room.host) == "cyd"
        assert kind.story[-2:] == ["host bob -> cyd", "leave bob left"]
        assert ada.room.host == "cyd"


@in_virtual_time
async def test_a_room_that_comes_back_without_a_host_elects_one() -> None:
    kind = table(Led, durability="commit", election="none")
    async with Bench(kind) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")

        kind.election = "oldest"
        await bench.restart()
        await ada.back()
        await settled(ada)

        assert host_of(bench, ada) == ada.room.host == "ada"
