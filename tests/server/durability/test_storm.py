"""Crashes, cut links and a moody store all at once, from a seed: nothing lost, nothing duplicated, nothing stuck."""

import asyncio
from random import Random

import pytest

from holdfast import NotSeated, Refused, Resynced
from holdfast.testing import Network
from tests.server.durability.bench import Bench, Sitting, in_virtual_time, until
from tests.server.durability.faults import Fault
from tests.server.durability.rooms import Said, Say, table

MESSAGES = 40
_FAULTS = [Fault.UNAVAILABLE, Fault.UNKNOWN_LOST, Fault.UNKNOWN_WRITTEN]


class Storm:
    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = Random(seed)
        self.is_over = False

    async def blow(self) -> None:
        bench, random = self.bench, self.random
        while not self.is_over:
            self.unsettle()
            await asyncio.sleep(random.expovariate(2.0))
            match random.randrange(4):
                case 0:
                    await bench.restart()
                case 1:
                    await bench.stop()
                    await bench.start()
                case _:
                    if links := bench.network.links:
                        random.choice(links).cut()
        bench.store.fault = lambda _: None

    def unsettle(self) -> None:
        random, store = self.random, self.bench.store
        store.latency_s = random.choice([0.0, 0.005, 0.05])
        store.fault = lambda _: random.choice(_FAULTS) if random.random() < 0.1 else None


async def talk(sitting: Sitting, random: Random) -> None:
    for number in range(MESSAGES):
        await sitting.send(Say(str(number)))
        await asyncio.sleep(random.uniform(0.0, 0.2))


@pytest.mark.parametrize("seed", range(20))
@in_virtual_time
async def test_whatever_happens_everything_arrives_once_and_in_order(seed: int) -> None:
    network = Network(Random(seed), latency_s=0.005, jitter_s=0.02)
    async with Bench(table(), network=network, recovery="lazy" if seed % 2 else "eager") as bench:
        players = [await bench.sit(name) for name in ("ada", "bob", "cleo")]
        storm = Storm(bench, seed)
        blowing = asyncio.create_task(storm.blow())
        await asyncio.gather(*(talk(player, Random(f"{seed}{number}")) for number, player in enumerate(players)))
        storm.is_over = True
        await blowing
        for player in players:
            await player.room.flush()
        said = bench.room(players[0]).state.said
        for player in players:
            await until(lambda player=player: player.texts[-1:] == said[-1:])  # type: ignore[misc]  # bound now

        for player in players:
            name = player.session.player_id
            assert [line for line in said if line.startswith(name)] == [f"{name}:{n}" for n in range(MESSAGES)]
            assert player.texts == said[len(said) - len(player.texts) :]
            assert set(player.kinds) <= {"resumed"}
        assert players[0].texts == said


@pytest.mark.parametrize("seed", range(10))
@in_virtual_time
async def test_a_checkpoint_room_doubles_nothing_and_says_when_it_forgot(seed: int) -> None:
    kind = table(durability="checkpoint", checkpoint_s=1.0)
    async with Bench(kind, network=Network(Random(seed), latency_s=0.005, jitter_s=0.02)) as bench:
        players = [await bench.sit(name) for name in ("ada", "bob")]
        storm = Storm(bench, seed)
        blowing = asyncio.create_task(storm.blow())
        await asyncio.gather(*(talk(player, Random(f"{seed}{number}")) for number, player in enumerate(players)))
        storm.is_over = True
        await blowing
        for player in players:
            await player.send(Say("last"))
            await player.room.flush()
        said = bench.room(players[0]).state.said
        for player in players:
            await until(lambda player=player: player.texts[-1:] == said[-1:])  # type: ignore[misc]  # bound now

        for player in players:
            name = player.session.player_id
            own = [line for line in said if line.startswith(name)]
            assert own == [line for line in (*(f"{name}:{n}" for n in range(MESSAGES)), f"{name}:last") if line in own]
            gaps = [index for index, message in enumerate(player.heard) if isinstance(message, Resynced)]
            heard = [message.text for message in player.heard[gaps[-1] if gaps else 0 :] if isinstance(message, Said)]
            if gaps:
                # What `on_resync` tells: how much had been said by then. Nothing is missing after it.
                assert said[int(heard[0].removeprefix("state ")) :] == heard[1:]
            assert set(player.kinds) <= {"resumed", "resynced"}


async def wander(bench: Bench, name: str, random: Random) -> int:
    """Join, talk, leave, again and again; how often it was said."""
    client = await bench.connect(name)
    said = 0
    for _ in range(6):
        try:
            seat = await client.join_or_create(random.choice(["table", "other"]))
            for _ in range(random.randrange(5)):
                await seat.send(Say(str(said)))
                said += 1
                await asyncio.sleep(random.uniform(0.0, 0.2))
            await seat.flush()
            await seat.leave()
        except (Refused, NotSeated) as error:
            raise AssertionError(f"{name}: {error}") from error
    return said


@pytest.mark.parametrize("seed", range(20))
@in_virtual_time
async def test_whatever_happens_rooms_can_be_left_for_others(seed: int) -> None:
    rooms = [table(empty_ttl_s=3600.0), table(name="Other", empty_ttl_s=3600.0)]
    async with Bench(*rooms, network=Network(Random(seed), latency_s=0.005, jitter_s=0.02)) as bench:
        # So that everybody is known from the start, and is not reset by the first crash.
        for name in ("ada", "bob"):
            await bench.server.create_room("table" if name == "ada" else "other")
        storm = Storm(bench, seed)
        walkers = [asyncio.create_task(wander(bench, name, Random(f"{seed}{name}"))) for name in ("ada", "bob")]
        await asyncio.sleep(1.0)
        blowing = asyncio.create_task(storm.blow())
        counts = await asyncio.gather(*walkers)
        storm.is_over = True
        await blowing

        said = [line for room in bench.server.rooms for line in room.state.said]
        for name, count in zip(("ada", "bob"), counts, strict=True):
            own = sorted(int(line.split(":")[1]) for line in said if line.startswith(name))
            assert own == list(range(count))
