"""What is in force is saved, whatever the store does; and who waits for that is told the truth."""

import asyncio
from typing import Any, ClassVar

import pytest

from holdfast import Message, Player, PlayerData, Reason, Server, Throttled, on
from holdfast.stores import Broken, Unavailable, Unknown, Write
from holdfast.testing import FaultyStore
from tests.server.access.kit import Hall, Said, back, operator, refused, seated, serving, sign_in, turned_away
from tests.server.durability.bench import a_moment, in_virtual_time, until


def _subjects(store: FaultyStore) -> int:
    return sum(key.startswith("ban/") for key in store.disk.entries)


@pytest.mark.parametrize(
    ("error", "is_written"),
    [(Unavailable("the disk is full"), None), (Unknown("no answer"), True), (Unknown("no answer"), False)],
    ids=["refused", "written without an answer", "lost without an answer"],
)
@in_virtual_time
async def test_a_ban_is_saved_though_the_first_try_fails(error: Unavailable | Unknown, *, is_written: bool) -> None:
    store = FaultyStore(latency_s=0.01)
    async with serving(store=store) as server:
        store.fail(error, is_written=is_written)

        await server.ban(player="ada")

        assert _subjects(store) == 1
        server.crash()
        await server.start()
        assert (await turned_away(server, "ada")).reason == Reason.BANNED
        await server.unban(player="ada")
        assert _subjects(store) == 0


@in_virtual_time
async def test_a_ban_is_in_force_before_it_is_saved_and_saved_when_the_store_is_well_again() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        ada = await sign_in(server, "ada")
        store.is_full = True

        with pytest.raises(Throttled, match="in force, but the store cannot save"):
            await server.ban(player="ada")

        assert (await ada.client.closed()).reason == Reason.BANNED
        assert (await turned_away(server, "ada")).reason == Reason.BANNED
        assert _subjects(store) == 0
        store.is_full = False
        await until(lambda: _subjects(store) == 1)


@pytest.mark.parametrize("end", ["ban", "ban of an address", "sign out", "kick"])
@in_virtual_time
async def test_a_link_is_closed_though_the_end_of_its_session_is_not_saved(end: str) -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        ada = await seated(server, "ada")
        (session,) = server.sessions.of_player("ada")
        session.address = "203.0.113.7"
        store.is_full = True

        ending: asyncio.Task[Any]
        match end:
            case "ban":
                ending = asyncio.create_task(server.ban(player="ada"))
            case "ban of an address":
                ending = asyncio.create_task(server.ban(address="203.0.113.7"))
            case "sign out":
                ending = asyncio.create_task(server.sign_out("ada"))
            case _:
                # A turn may have decided that, and be undone: the client hears only what everybody does.
                ending = asyncio.create_task(operator(server).sessions.end(session.id, "go"))

        reason = (await ada.client.closed()).reason
        assert reason == {"sign out": Reason.SIGNED_OUT, "kick": Reason.BUSY}.get(end, Reason.BANNED)
        assert not ending.done()
        store.is_full = False
        await ending


@in_virtual_time
async def test_what_was_wanted_last_is_what_is_saved() -> None:
    store = FaultyStore(latency_s=1.0)
    async with serving(store=store) as server:
        store.fail(Unknown("no answer"), is_written=False)
        wishes = [
            asyncio.create_task(server.ban(player="ada")),
            asyncio.create_task(server.ban(player="bob", why="first")),
        ]
        await a_moment(0.1)
        wishes.append(asyncio.create_task(server.ban(player="bob", why="second")))
        await asyncio.gather(*wishes, server.unban(player="ada"))

        server.crash()
        await server.start()

        assert [(ban.subject, ban.why) for ban in server.bans()] == [("player:bob", "second")]


@in_virtual_time
async def test_an_operator_s_word_counts_though_somebody_else_wrote_the_record() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        await server.ban(player="ada", why="first")
        for key, entry in list(store.disk.entries.items()):
            if key.startswith("ban/"):
                store.disk.write([Write(key, entry.value, entry.revision)])

        await server.ban(player="ada", why="second")

        server.crash()
        await server.start()
        assert [ban.why for ban in server.bans()] == ["second"]


@in_virtual_time
async def test_a_store_that_cannot_be_trusted_ends_the_server() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        machine = server.machine
        store.fail(Broken("fsync failed"))

        with pytest.raises(Exception):  # noqa: B017 - the machine is gone
            await server.ban(player="ada")

        assert not machine.is_running
        await server.start()


@in_virtual_time
async def test_an_orderly_stop_saves_what_is_in_force() -> None:
    store = FaultyStore(latency_s=0.5)
    async with serving(store=store) as server:
        banning = asyncio.create_task(server.ban(player="ada"))
        await a_moment(0.01)

        await server.stop()
        await banning

        await server.start()
        assert (await turned_away(server, "ada")).reason == Reason.BANNED


@in_virtual_time
async def test_a_stop_does_not_wait_for_ever_for_a_store_that_does_not_save() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        store.is_full = True
        banning = asyncio.create_task(server.ban(player="ada"))
        await a_moment(0.01)

        await server.stop()

        store.is_full = False
        banning.cancel()
        await server.start()


# From within a room


class Out(Message):
    who: str


class Judge(Hall):
    """A game master bans from within a turn, and waits for it."""

    server: ClassVar[Server]

    @on(Out)
    async def out(self, player: Player[PlayerData], out: Out) -> None:
        ban = await self.server.ban(player=out.who)
        self.broadcast(Said(ban.subject))


@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_a_room_may_ban_one_of_its_own_players_and_wait_for_it(durability: str) -> None:
    kind: type[Judge] = type("Judge", (Judge,), {"kind": "hall", "durability": durability})
    async with serving(kind) as server:
        kind.server = server
        gm, ada = await seated(server, "gm"), await seated(server, "ada")
        started = asyncio.get_running_loop().time()

        gm.client.send(1, Out("ada"))

        assert (await ada.client.closed()).reason == Reason.BANNED
        assert asyncio.get_running_loop().time() - started < 1.0, "the turn must not wait for its own end"
        assert (await refused(server, ada.welcome)).reason == Reason.EXPIRED
        assert (await back(server, gm.welcome)).outcome.kind == "resumed"
