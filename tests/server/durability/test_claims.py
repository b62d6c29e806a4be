"""A server that has read a session, and does not know yet whether its former server wrote it once more (R8)."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from holdfast import Limits
from holdfast.schemas.frames import Hello, Position, Resume
from holdfast.server.durability.recovery import Pace
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.faults import FaultyStore
from tests.server.durability.rooms import Said, Say, table
from tests.server.raw_client import RawClient


async def heard(bench: Bench, ada: Sitting) -> None:
    bench.room(ada).broadcast(Said("late"))
    await ada.has_heard("late")


async def sent(bench: Bench, ada: Sitting) -> None:
    await ada.send(Say("late"))
    await ada.room.flush()


async def asked(bench: Bench, ada: Sitting) -> None:
    await ada.room.update(name="late")


async def came_back(bench: Bench, ada: Sitting) -> None:
    """Her token is one that was not read."""
    bench.link(ada).cut()
    await ada.back()
    await sent(bench, ada)


async def reading(bench: Bench, did: Callable[[Bench, Sitting], Awaitable[None]]) -> tuple[Sitting, FaultyStore]:
    """Ada does something on a server that dies; the next one has read what was saved before, and wants to commit."""
    ada = await bench.sit("ada")
    await ada.send(Say("early"))
    await ada.has_heard("ada:early")
    await a_moment()
    read = bench.backup()
    await did(bench, ada)
    await a_moment()
    latest = bench.backup()
    ada.outcomes.clear()
    bench.dialer(ada).is_down = True
    bench.crash()
    bench.data.entries = read
    store = FaultyStore(bench.data)
    store.hold()
    await bench.start(store)
    bench.server.parts.stored.restore(ada.session.id)
    await until(lambda: store.is_waiting)
    bench.data.entries = latest
    return ada, store


@pytest.mark.parametrize("did", [heard, sent, asked, came_back])
@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_a_client_that_knows_what_its_former_server_wrote_last_resumes(
    did: Callable[[Bench, Sitting], Awaitable[None]], recovery: Pace
) -> None:
    async with Bench(table(), recovery=recovery) as bench:
        ada, store = await reading(bench, did)
        texts = list(ada.texts)

        bench.dialer(ada).is_down = False
        await until(lambda: bench.server.parts.connections)
        await a_moment()
        early = list(ada.outcomes)
        store.release()
        outcome = await ada.back()
        await ada.send(Say("new"))
        await ada.has_heard("ada:new")

        assert early == []
        assert (outcome.kind, outcome.reason) == ("resumed", "")
        assert ada.kinds == ["resumed"]
        assert ada.texts == [*texts, "ada:new"]
        assert bench.server.counters.clients_rolled_back == 0
        assert bench.server.counters.rooms_fenced == 1


async def nothing(bench: Bench, ada: Sitting) -> None:
    pass


@in_virtual_time
async def test_a_client_that_knows_no_more_than_was_read_waits_for_one_commit_and_not_for_two() -> None:
    async with Bench(table()) as bench:
        ada, store = await reading(bench, nothing)

        (session,) = bench.server.parts.sessions.of_player("ada")
        bench.dialer(ada).is_down = False
        await until(lambda: session.resumes)
        early = list(ada.outcomes)
        store.release()
        outcome = await ada.back()

        assert early == []
        assert outcome.kind == "resumed"


async def stranger(bench: Bench, ada: Sitting) -> RawClient:
    """A connection with a token that ada's session has never had."""
    client = await bench.raw()
    client.say(Hello(None, Resume(ada.session.id, "unknown", [Position(1, 1, 0)])))
    return client


@in_virtual_time
async def test_a_hello_that_waits_is_turned_away_when_the_store_fails() -> None:
    async with Bench(table(), limits=Limits(store_patience_s=1.0, hello_s=60.0)) as bench:
        ada, store = await reading(bench, heard)

        close = await (await stranger(bench, ada)).closed()

        assert (close.reason, close.retry_after_s) == ("busy", 1.0)
        store.release()


@in_virtual_time
async def test_a_hello_does_not_wait_for_longer_than_one_may_take() -> None:
    async with Bench(table(), limits=Limits(store_patience_s=60.0, hello_s=2.0)) as bench:
        ada, store = await reading(bench, heard)

        close = await (await stranger(bench, ada)).closed()

        assert close.reason == "busy"
        store.release()


@in_virtual_time
async def test_a_second_hello_while_the_first_one_waits_breaks_the_protocol() -> None:
    async with Bench(table()) as bench:
        ada, store = await reading(bench, heard)

        client = await stranger(bench, ada)
        await a_moment(0.1)
        client.say(Hello(None, Resume(ada.session.id, "another", [])))
        close = await client.closed()

        assert close.reason == "protocol"
        assert "already" in close.message
        store.release()


@in_virtual_time
async def test_a_hello_whose_connection_is_gone_is_not_answered() -> None:
    async with Bench(table()) as bench:
        ada, store = await reading(bench, heard)

        client = await stranger(bench, ada)
        await a_moment(0.1)
        client.cut()
        await until(lambda: not bench.server.parts.connections)
        store.release()
        await a_moment()

        assert bench.server.counters.internal_errors == 0
        assert client.heard == []


@in_virtual_time
async def test_a_server_that_stops_does_not_read_again_what_it_has_read_too_early() -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
    async with Bench(table()) as bench:
        _, store = await reading(bench, sent)

        stopping = asyncio.create_task(bench.stop())
        await a_moment()
        store.release()
        await stopping
        await asyncio.sleep(60.0)
        gc.collect()

        assert failures == []
