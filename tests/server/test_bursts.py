"""A client that says a lot at once hears all of the answers: what it says waits while it has a window to read."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw, Struct

from holdfast import (
    ClientRoom,
    ClientSession,
    Limits,
    Message,
    NotSeated,
    Outcome,
    Player,
    PlayerData,
    Reason,
    Resynced,
    Room,
    on,
)
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Auth, Data, Hello, Welcome
from holdfast.testing import FaultyStore, MemoryServer, Named, generous
from tests.server.access.kit import dialed
from tests.server.durability.bench import in_virtual_time, until


class Count(Message):
    n: int


class Counted(Message):
    n: int
    part: int


class Tally(Struct):
    seen: list[int] = []


ANSWERS = 2


class Counter(Room[PlayerData]):
    """Answers every message twice."""

    grace_s = 600.0

    state: Tally

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Tally()

    @on(Count)
    def count(self, player: Player[PlayerData], count: Count) -> Any:
        self.answer(player, count)

    def answer(self, player: Player[PlayerData], count: Count) -> None:
        self.state.seen.append(count.n)
        for part in range(ANSWERS):
            player.send(Counted(count.n, part))


class Slow(Counter):
    """The same, and takes its time: what is said meanwhile waits in the room."""

    @on(Count)
    async def count(self, player: Player[PlayerData], count: Count) -> None:
        await asyncio.sleep(0)
        self.answer(player, count)


class Saved(Counter):
    durability = "commit"
    kind = "saved"


class SlowSaved(Slow):
    durability = "commit"


class Checked(Counter):
    durability = "checkpoint"


KINDS = [Counter, Slow, Saved, SlowSaved, Checked]


def served(kind: type[Room[Any]], limits: Limits | None = None) -> MemoryServer:
    store = FaultyStore() if kind.durability != "memory" else None
    return MemoryServer([kind], store=store, limits=limits or generous())


async def seated(server: MemoryServer, kind: type[Room[Any]], name: str = "ada") -> tuple[ClientSession, ClientRoom]:
    session = await server.connect(name, messages=[Counted])
    return session, await session.join_or_create(kind.kind)


async def send_all(room: ClientRoom, numbers: range) -> None:
    for n in numbers:
        await room.send(Count(n))


def seen(server: MemoryServer) -> list[int]:
    """What the only room has applied."""
    (there,) = server.rooms
    assert isinstance(there, Counter)
    return there.state.seen


async def hear(room: ClientRoom, numbers: range) -> None:
    """Every answer, once and in order, and nothing else."""
    for n in numbers:
        for part in range(ANSWERS):
            assert await room.receive() == Counted(n, part)


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        *(pytest.param(kind, generous(), id=kind.__name__) for kind in KINDS),
        pytest.param(Counter, Limits(), id="usual limits"),
    ],
)
@in_virtual_time
async def test_an_offline_burst_is_resumed_and_hears_every_answer(kind: type[Counter], limits: Limits) -> None:
    async with served(kind, limits) as server:
        ada, room = await seated(server, kind)
        server.dialer(ada).is_down = True
        server.link(ada).cut()
        sending = asyncio.create_task(send_all(room, range(5_000)))
        await asyncio.sleep(1.0)
        server.dialer(ada).is_down = False

        await hear(room, range(5_000))
        await sending

        assert ada.outcome is not None
        assert ada.outcome.kind == "resumed"
        assert ada.drops == 1
        assert server.counters.streams_overflowed == server.counters.messages_throttled == 0


# As small as it gets, so that everything stalls all the time

SMALL = generous(Limits(window_messages_max=16, kept_messages_max=24))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@in_virtual_time
async def test_what_is_said_stalls_and_goes_on_across_drops(kind: type[Counter]) -> None:
    async with served(kind, SMALL) as server:
        ada, room = await seated(server, kind)
        sending = asyncio.create_task(send_all(room, range(400)))
        for first in range(0, 400, 40):
            await hear(room, range(first, first + 40))
            await asyncio.sleep(0.5)
            server.link(ada).cut()
        await sending

        assert ada.drops >= 9
        assert server.counters.streams_overflowed == 0
        assert seen(server) == list(range(400))


@pytest.mark.parametrize("kind", [Saved, SlowSaved], ids=lambda kind: kind.__name__)
@in_virtual_time
async def test_it_goes_on_after_a_crash_while_it_is_stalled(kind: type[Counter]) -> None:
    async with served(kind, SMALL) as server:
        ada, room = await seated(server, kind)
        sending = asyncio.create_task(send_all(room, range(200)))
        for first in range(0, 200, 40):
            await hear(room, range(first, first + 40))
            await asyncio.sleep(0.5)
            server.crash()
            await server.start()
        await sending

        assert ada.outcome is not None
        assert ada.outcome.kind == "resumed"


@in_virtual_time
async def test_requests_and_signs_of_life_are_heard_while_what_is_said_waits() -> None:
    async with served(Counter, SMALL) as server:
        ada, room = await seated(server, Counter)
        sending = asyncio.create_task(send_all(room, range(30)))
        await asyncio.sleep(SMALL.unread_s / 2)
        assert not sending.done()

        found = await ada.search("counter")

        assert [each.id for each in found] == [room.id]
        assert len(seen(server)) == 8
        for n in range(30):
            # Slower than the pings are, and every time another answer or two.
            await hear(room, range(n, n + 1))
            await asyncio.sleep(SMALL.unread_s / 2)
        await sending
        assert ada.drops == 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("is_bye", [True, False])
@in_virtual_time
async def test_who_leaves_without_reading_leaves_at_once_and_all_they_said_is_applied_before(
    kind: type[Counter], is_bye: bool
) -> None:
    async with served(kind, generous(Limits(window_messages_max=16, kept_messages_max=64))) as server:
        ada, room = await seated(server, kind)
        (there,) = server.rooms
        assert isinstance(there, Counter)
        await send_all(room, range(20))
        await asyncio.sleep(1.0)
        assert len(seen(server)) < 20

        await (ada.close() if is_bye else room.leave())
        await until(lambda: there.players == ())

        assert there.state.seen == list(range(20))
        assert ada.drops == 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@in_virtual_time
async def test_a_client_that_never_reads_is_slow_after_a_while_and_resynced(kind: type[Counter]) -> None:
    async with served(kind, SMALL) as server:
        ada, room = await seated(server, kind)
        outcomes: list[Outcome] = []
        ada.on_resume(outcomes.append)
        began = asyncio.get_running_loop().time()

        await send_all(room, range(40))
        took = asyncio.get_running_loop().time() - began
        heard = await room.receive()

        assert {(outcome.kind, outcome.drop_reason) for outcome in outcomes} == {("resynced", Reason.SLOW)}
        assert took >= SMALL.unread_s
        assert heard == Resynced()
        await until(lambda: len(seen(server)) == 40)
        assert seen(server) == list(range(40))


@in_virtual_time
async def test_a_takeover_loses_nothing_of_what_waited() -> None:
    async with served(Counter, SMALL) as server:
        _, room = await seated(server, Counter)
        await send_all(room, range(20))
        await asyncio.sleep(1.0)

        await seated(server, Counter)

        assert seen(server) == list(range(20))
        with pytest.raises(NotSeated):
            await hear(room, range(20))


class Relay(Counter):
    """Says to the other one what each says."""

    def answer(self, player: Player[PlayerData], count: Count) -> None:
        self.state.seen.append(count.n)
        for other in self.players:
            if other is not player:
                other.send(Counted(count.n, 0))
                other.send(Counted(count.n, 1))


@in_virtual_time
async def test_two_that_answer_each_other_do_not_wait_for_each_other() -> None:
    async with served(Relay, generous(Limits(window_messages_max=16, kept_messages_max=256))) as server:
        (_, one), (_, other) = await seated(server, Relay), await seated(server, Relay, "bob")

        async with asyncio.timeout(60.0):
            await asyncio.gather(
                send_all(one, range(500)), send_all(other, range(500)), hear(one, range(500)), hear(other, range(500))
            )

        assert server.counters.streams_overflowed == 0


@in_virtual_time
async def test_what_waits_is_no_more_than_the_window() -> None:
    async with served(Counter, SMALL) as server:
        mallory = await dialed(server)
        mallory.say(Hello(Auth(Named.scheme, "mallory")))
        await mallory.hear(Welcome)
        await mallory.join("counter")

        for seq in range(1, 40):
            mallory.say(Data(1, seq, 0, "count", Raw(MSGPACK.encode(Count(seq)))))
        closed = await mallory.closed()

        assert closed.reason == Reason.SEQUENCE
        assert len(seen(server)) == 8
