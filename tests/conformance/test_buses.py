"""What every bus promises, and what membership makes of it; see `holdfast.cluster.port`."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial

import msgspec
import pytest

from holdfast.cluster import Bus, Heart, MemberState, MemberWatch, NatsBus, NobodyThere, NoReply
from holdfast.cluster.heart import beating, say_bye
from holdfast.core.limits import Limits
from holdfast.schemas.beat import Beat
from holdfast.stores.nats import NatsStore
from holdfast.testing.bus import BusNetwork, MemoryBus
from tests.deadlines import DEADLINE_S
from tests.nats_server import shared_server

# In milliseconds what takes seconds; the rules are tested with time as an argument.
QUICK = Limits(beat_s=0.02, suspect_s=0.1, probe_s=0.05, absent_s=0.05, silent_s=0.4, doubt_s=0.1)

MakeBus = Callable[[], Bus]


def memory_buses(_: str) -> MakeBus:
    return partial(MemoryBus, BusNetwork())


def nats_buses(name: str) -> MakeBus:
    return partial(NatsBus, f"{shared_server().url}/{name}")


@pytest.fixture(params=[memory_buses, nats_buses], ids=["memory", "nats"])
def make(request: pytest.FixtureRequest) -> MakeBus:
    """Makes a bus of the same cluster."""
    buses: MakeBus = request.param(f"{request.node.originalname[:40]}-{os.getpid()}")
    return buses


class Buses:
    """Open ones, which are closed in the end."""

    def __init__(self, make: MakeBus) -> None:
        self._make = make
        self._opened: list[Bus] = []
        self.store: NatsStore | None = None

    async def open(self) -> Bus:
        bus = self._make()
        if self.store is None and isinstance(self._make, partial) and isinstance(bus, NatsBus):
            # The bus of a cluster is beside its store.
            self.store = NatsStore(*self._make.args)
            await self.store.open()
        await bus.open()
        self._opened.append(bus)
        return bus

    async def close(self) -> None:
        for bus in self._opened:
            await bus.close()
        if self.store is not None:
            await self.store.close()


@pytest.fixture
async def buses(make: MakeBus) -> AsyncIterator[Buses]:
    buses = Buses(make)
    yield buses
    await buses.close()


@pytest.fixture
async def bus(buses: Buses) -> Bus:
    return await buses.open()


@pytest.fixture
async def other(buses: Buses) -> Bus:
    return await buses.open()


class Ears:
    """What was heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self._news = asyncio.Event()

    def __call__(self, topic: str, payload: bytes) -> None:
        self.heard.append((topic, payload))
        self._news.set()

    async def until(self, count: int) -> list[tuple[str, bytes]]:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.heard) < count:
                self._news.clear()
                await self._news.wait()
        return self.heard


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - a deadline, not a time
            await asyncio.sleep(0.005)


async def listening(bus: Bus, topic: str) -> Ears:
    """Ears on a bus."""
    ears = Ears()
    await bus.listen(topic, ears)
    return ears


async def test_what_is_told_is_heard_by_all_who_listen_in_its_order_and_by_the_teller_too(bus: Bus, other: Bus) -> None:
    mine, theirs = await listening(bus, "beat.*"), await listening(other, "beat.*")
    deaf = await listening(other, "rows.*")

    for number in range(100):
        await bus.tell("beat.a", b"%d" % number)
    await bus.tell("rows.a", b"")

    expected = [("beat.a", b"%d" % number) for number in range(100)]
    assert await mine.until(100) == expected
    assert await theirs.until(100) == expected
    assert await deaf.until(1) == [("rows.a", b"")]


async def test_a_star_is_one_word(bus: Bus) -> None:
    ears = await listening(bus, "beat.*")

    await bus.tell("beat.a.b", b"")
    await bus.tell("beater.a", b"")
    await bus.tell("beat.a", b"")

    assert await ears.until(1) == [("beat.a", b"")]


async def test_a_question_is_answered_by_the_one_it_is_for(bus: Bus, other: Bus) -> None:
    await bus.answer("node.a", lambda asked: b"a: " + asked)
    await bus.answer("node.b", lambda asked: b"b: " + asked)

    async with asyncio.timeout(DEADLINE_S):
        replies = [await other.ask(f"node.{name}", b"%d" % n, DEADLINE_S) for n, name in enumerate("abab")]

    assert replies == [b"a: 0", b"b: 1", b"a: 2", b"b: 3"]


async def test_a_question_that_nobody_listens_for_is_refused_at_once(bus: Bus, other: Bus, buses: Buses) -> None:
    gone = await buses.open()
    await gone.answer("node.a", lambda _: b"")
    await other.ask("node.a", b"", DEADLINE_S)

    await gone.close()

    with pytest.raises(NobodyThere):
        await bus.ask("node.never", b"", DEADLINE_S)
    with pytest.raises(NobodyThere):
        await ask_again(other, "node.a")


async def ask_again(bus: Bus, topic: str) -> bytes:
    """A question that was on its way when the other end closed is lost with it."""
    while True:
        with suppress(NoReply):
            return await bus.ask(topic, b"", 0.05)


async def test_a_link_proves_that_it_reaches_what_decides_for_all_and_leaves_nothing_in_the_store(buses: Buses) -> None:
    bus = await buses.open()

    assert await bus.reaches_most()
    assert await bus.reaches_most()

    assert buses.store is None or await buses.store.list("") == []


async def test_a_link_to_servers_that_decide_nothing_proves_nothing() -> None:
    nowhere = NatsBus(f"{shared_server().url}/no-store-{os.getpid()}")
    await nowhere.open()
    network = BusNetwork()
    cut = MemoryBus(network)
    await cut.open()
    network.cut(cut)

    assert not await nowhere.reaches_most()
    assert not await cut.reaches_most()

    await nowhere.close()
    await cut.close()


async def test_a_bus_that_is_closed_hears_nothing_more_and_can_be_closed_again(bus: Bus, other: Bus) -> None:
    ears, witness = await listening(bus, "beat.*"), await listening(other, "beat.*")

    await bus.close()
    await bus.close()
    await other.tell("beat.a", b"")

    await witness.until(1)
    assert ears.heard == []


# Membership on it


class Node:
    """One node that beats and watches."""

    def __init__(self, bus: Bus, life: str) -> None:
        self.life = life
        self.bus = bus
        self.watch = MemberWatch(bus, life, QUICK)
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.watch.start()
        self._beating = asyncio.create_task(beating(self.bus, self.beat, QUICK, lambda: 0.0))

    def beat(self, number: int, loop_age_s: float) -> Beat:
        return Beat(life=self.life, number=number, kinds=("arena",), loop_age_s=loop_age_s)

    def fall_silent(self) -> None:
        assert self._beating is not None
        self._beating.cancel()

    async def stop(self) -> None:
        self.fall_silent()
        await self.watch.stop()

    def sees(self, life: str) -> MemberState | None:
        member = self.watch.membership.members.get(life)
        return member.state if member is not None else None


@pytest.fixture
async def nodes(buses: Buses) -> AsyncIterator[list[Node]]:
    """Three that know each other."""
    nodes = [Node(await buses.open(), life) for life in "abc"]
    for node in nodes:
        await node.start()
    await until(lambda: all(len(node.watch.membership.members) == 2 for node in nodes))
    yield nodes
    for node in nodes:
        await node.stop()


def all_see(nodes: list[Node], life: str, state: MemberState) -> bool:
    return all(node.sees(life) is state for node in nodes if node.life != life)


async def test_nodes_find_each_other_and_agree_on_owners(nodes: list[Node]) -> None:
    for room in ("r1", "r2", "r3", "r4"):
        owners = {node.watch.membership.next_owner(room, "arena", node.beat(0, 0.0)) for node in nodes}
        assert len(owners) == 1
        assert owners < {"a", "b", "c"}


async def test_a_node_that_says_bye_has_left_and_one_that_goes_without_a_word_is_dead(nodes: list[Node]) -> None:
    a, b, c = nodes
    told: list[tuple[str, MemberState]] = []
    c.watch.on_change.append(lambda change: told.append((change.life, change.after)))

    a.fall_silent()
    await say_bye(a.bus, "a")
    await until(lambda: all_see([b, c], "a", MemberState.LEFT))
    await b.stop()
    await b.bus.close()
    await until(lambda: c.sees("b") is MemberState.DEAD)

    assert told == [("a", MemberState.LEFT), ("b", MemberState.SUSPECT), ("b", MemberState.DEAD)]


async def test_a_node_that_hangs_is_dead_after_a_longer_silence_and_alive_when_it_beats_again(
    nodes: list[Node],
) -> None:
    a, b, c = nodes

    a.fall_silent()  # its link still answers
    await until(lambda: all_see([b, c], "a", MemberState.DEAD))
    member = b.watch.membership.members["a"]

    assert member.changed_at - member.heard_at >= QUICK.silent_s
    await a.watch.stop()
    await beat_once(a.bus, a.beat(10**6, 0.0))
    await until(lambda: b.sees("a") is MemberState.ALIVE)


async def beat_once(bus: Bus, beat: Beat) -> None:
    task = asyncio.create_task(beating(bus, lambda *_: beat, QUICK, lambda: 0.0))
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    task.cancel()


async def test_a_heart_beats_though_its_event_loop_hangs_and_says_for_how_long() -> None:
    make = nats_buses(f"heart-{os.getpid()}")
    other = Node(make(), "a")
    await other.bus.open()
    await other.start()
    heart = Heart(make, lambda number, age_s: Beat(life="d", number=number, loop_age_s=age_s), QUICK)
    await heart.start()
    await until(lambda: other.sees("d") is MemberState.ALIVE)
    ears = await listening(other.bus, "beat.d")

    time.sleep(0.3)  # noqa: ASYNC251 - a handler that blocks
    await until(lambda: any(msgspec.msgpack.decode(beat, type=Beat).loop_age_s > 0.1 for _, beat in ears.heard))
    # The loop that hung is also that of the node that looks: it reads the beats when it goes on.
    await until(lambda: other.sees("d") is MemberState.ALIVE)

    await heart.stop()
    await until(lambda: other.sees("d") is MemberState.LEFT)
    await other.stop()
    await other.bus.close()


async def test_a_heart_whose_bus_does_not_open_says_so() -> None:
    def broken() -> Bus:
        return NatsBus("nats://127.0.0.1:1/none", limits=Limits(nats_connect_s=0.1))

    heart = Heart(broken, lambda number, _: Beat(life="d", number=number), QUICK)

    with pytest.raises(Exception, match="no NATS server lets this one in"):
        await heart.start()

    await heart.stop()


async def test_a_heart_whose_start_is_given_up_does_not_beat() -> None:
    network, opening = BusNetwork(), threading.Event()

    class SlowBus(MemoryBus):
        async def open(self) -> None:
            await asyncio.to_thread(opening.wait, DEADLINE_S)
            await super().open()

    beats: list[int] = []

    def beat(number: int, _: float) -> Beat:
        beats.append(number)
        return Beat(life="d", number=number)

    heart = Heart(lambda: SlowBus(network), beat, QUICK)
    starting = asyncio.create_task(heart.start())
    await asyncio.sleep(0)

    starting.cancel()
    await asyncio.wait([starting])
    opening.set()
    await heart.stop()

    assert (beats, network.linked) == ([], {})


# Links that are lost: in memory, where they can be cut at an instant


async def test_a_node_that_was_cut_off_doubts_what_it_did_not_hear() -> None:
    network = BusNetwork()
    a, b, c = [Node(MemoryBus(network), life) for life in "abc"]
    for node in (a, b, c):
        await node.bus.open()
        await node.start()
    await until(lambda: all(len(node.watch.membership.members) == 2 for node in (a, b, c)))
    assert isinstance(a.bus, MemoryBus)

    network.cut(a.bus)
    with pytest.raises(NoReply):
        await a.bus.ask("node.b", b"", 0.01)
    await until(lambda: all_see([b, c], "a", MemberState.DEAD))
    before = a.watch.membership.doubts_until
    network.mend(a.bus)

    assert a.watch.membership.doubts_until > before
    await until(lambda: all_see([a, b, c], "a", MemberState.ALIVE))
    await until(lambda: all_see([a, b, c], "b", MemberState.ALIVE))
    for node in (a, b, c):
        await node.stop()
