"""The turns of a recording, taken again: the same code ends each of them in the same way, and other code is caught."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast import Message, Player, PlayerData, Refused, Room, Spectator, on
from holdfast.core.errors import Invalid
from holdfast.core.recording import RecordingReader
from holdfast.core.room import Recorded
from holdfast.schemas.recording import RerunInfo
from holdfast.server.operate.rerun import Rerun
from holdfast.testing import FaultyStore, MemoryServer, run


class Camp(msgspec.Struct):
    day: int = 0
    fire: float = 1.0
    log: list[str] = []
    wood: dict[int, int] = {}


class Scout(PlayerData):
    wood: int = 0
    badges: list[str] = msgspec.field(default_factory=list)

    def reset(self) -> None:
        self.wood = 0


class Pitch(msgspec.Struct):
    tent: str = "small"


class Do(Message):
    what: str
    who: str = ""


class Shout(Message):
    pass


class Camping(Room[Scout], kind="camp"):
    """Everything that can cause a turn."""

    record: Recorded = "game"
    transactional = True
    tick_hz = 2.0
    max_spectators = 4
    max_players = 5
    grace_s = 6.0
    election = "oldest"
    join_options = Pitch
    state: Camp

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Camp(log=[config.get("name", "?")])
        self.every(5.0, self.new_day, "rain", name="day")

    def on_join(self, player: Player[Scout]) -> None:
        if player.id == "eve":
            raise Refused("not you")
        self.state.log.append(f"{player.id} {getattr(player.options, 'tent', '')} {self.random.randrange(1000)}")
        self.own(player, f"tent of {player.id}")
        self.after(3.0, self.give_badge, player)

    def on_leave(self, player: Player[Scout], reason: Any) -> None:
        self.state.log.append(f"{player.id} left: {reason}")

    def on_drop(self, player: Player[Scout]) -> None:
        self.state.log.append(f"{player.id} is away")

    def on_rejoin(self, player: Player[Scout]) -> None:
        self.state.log.append(f"{player.id} is back")

    def on_spectate(self, spectator: Spectator) -> None:
        self.state.log.append(f"{spectator.id} watches")

    def on_tick(self, dt_s: float) -> None:
        self.state.fire *= 1 - dt_s / 100
        self.state.wood[self.state.day] = self.random.randrange(100)

    def new_day(self, weather: str) -> None:
        self.state.day += 1
        self.state.log.append(f"day {self.state.day}: {weather}")
        del self.state.log[:-8]

    def give_badge(self, player: Player[Scout]) -> None:
        player.data.badges.append(f"badge {self.state.day}")

    def on_end(self) -> None:
        self.state.log.append("over")

    async def fetch(self, wood: int) -> int:
        await asyncio.sleep(0.3)
        return wood

    def fetched(self, wood: int) -> None:
        self.state.wood[-1] = wood

    async def scout(self, agent: Any) -> None:
        while True:
            await asyncio.sleep(1.1)
            agent.send(Do("chop"))

    @on(Shout, spectators=True)
    async def shout(self, player: Any, shout: Shout) -> Shout:
        await asyncio.sleep(0.7)
        self.state.log.append(f"{player.id} shouts")
        return shout

    @on(Do)
    def do(self, player: Player[Scout], do: Do) -> None:
        player.data.wood += 1
        match do.what:
            case "start":
                self.start()
            case "end":
                self.end()
            case "kick" if (other := self.player(do.who)) is not None:
                other.kick()
            case "fetch":
                self.spawn(self.fetch(self.random.randrange(9)), self.fetched)
            case "bot" if self.player("agent:bot") is None:
                self.open_agent("bot", self.scout)
            case "promote" if self.spectators:
                self.promote(self.spectators[0])
            case "fail":
                self.state.log.clear()
                raise ValueError("clumsy")
            case "refuse":
                raise Refused("no")
            case "cancel":
                self.cancel("day")
            case "group":
                self.group("cooks").add(player)
            case _:
                pass
        self.chopped(player)

    def chopped(self, player: Player[Scout]) -> None:
        """Where today's code may differ."""


async def camped(server: MemoryServer, seed: int) -> RecordingReader:
    random = Random(seed)
    ada, bob, cy, eve = [await server.connect(name) for name in ("ada", "bob", "cy", "eve")]
    room = await ada.create("camp", config={"name": "Lake"})
    rooms = {"ada": await ada.join(room.id), "bob": await bob.join(room.id, options=Pitch("large"))}
    await cy.spectate(room.id)
    whats = ["chop", "start", "end", "fetch", "bot", "promote", "fail", "refuse", "group", "kick", "cancel"]
    for turn in range(60):
        name = random.choice(["ada", "bob"])
        if rooms[name].left is not None:
            rooms[name] = await server.clients[["ada", "bob"].index(name)].join(room.id)
        await rooms[name].send(Do(random.choice(whats), random.choice(["cy", "agent:bot", "bob"])))
        match turn % 10:
            case 1:
                with pytest.raises(Refused):
                    await eve.join(room.id)
            case 3:
                server.link(bob).cut()
            case 5 if cy.room is not None:
                await cy.room.send(Shout())
            case 7:
                await asyncio.sleep(3.0)
            case _:
                pass
        await asyncio.sleep(random.random())
    await asyncio.sleep(1.0)
    return server.parts.recordings.get(room.id).reader()


async def again(reader: RecordingReader, kind: type[Room[Any]], first: int = 1) -> RerunInfo:
    async with MemoryServer([kind], store=FaultyStore(), allow_errors=ValueError) as server:
        rerun = Rerun(reader, kind, server.parts.rooms, server.parts.lifecycle)
        return await server.machine.do(rerun.run(first, reader.last))


class Greedy(Camping, kind="camp"):
    def chopped(self, player: Player[Scout]) -> None:
        if player.data.wood == 5:
            player.data.wood = 6


class Loud(Camping, kind="camp"):
    def chopped(self, player: Player[Scout]) -> None:
        if player.data.wood == 5:
            raise ValueError("too much")


class Lazy(Camping, kind="camp"):
    def give_badge(self, player: Player[Scout]) -> None:
        if player.id != "ada":
            super().give_badge(player)


class Forgotten(Camping, kind="camp"):
    record = "off"


@pytest.mark.parametrize("seed", range(3))
def test_the_same_code_ends_every_turn_as_it_was_recorded_and_other_code_is_caught(seed: int) -> None:
    async def scenario() -> None:
        kind = type("Camp", (Camping,), {"durability": ["memory", "commit"][seed % 2]}, kind="camp")
        async with MemoryServer([kind], store=FaultyStore(), seed=seed, allow_errors=ValueError) as server:
            reader = await camped(server, seed)

        same = await again(reader, kind)
        later = await again(reader, kind, reader.last // 2)
        causes = {turn.number: turn.cause for turn in reader.turns()}
        assert (same.turn, same.problem, same.differences) == (None, "", [])
        assert (later.turn, later.problem, later.differences) == (None, "", [])
        assert (same.skipped, same.repeated > 0.97 * len(causes)) == ([], True)
        assert {cause.kind for cause in causes.values()} >= {"message", "hook", "timer", "tick", "result"}

        greedy, loud, lazy = [await again(reader, each) for each in (Greedy, Loud, Lazy)]
        for found in (greedy, loud):
            assert found.turn is not None
            assert (found.turn.kind, found.turn.name) == ("message", "do")
        player = greedy.turn.player if greedy.turn is not None else ""
        assert [(each.path, each.recorded, each.now) for each in greedy.differences] == [
            (f"players.{player}.wood", 5, 6)
        ]
        assert loud.problem.startswith("it succeeded, and failed with ValueError: too much")
        assert lazy.turn is not None
        assert (lazy.turn.kind, lazy.turn.name) == ("timer", "give_badge")
        assert lazy.differences[0].path == "players.ada.badges"

    run(scenario())


def test_a_room_that_is_not_recorded_any_more_cannot_be_compared() -> None:
    with pytest.raises(Invalid, match="not recorded any more"):
        Rerun(None, Forgotten, None, None)  # type: ignore[arg-type]  # it comes first
