"""The game of the simulation: rooms that keep a log, number what they say, and tell the checker what they do."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar

from holdfast import Player, PlayerData, Reason, Refused, Room, on
from tests.simulation.checker import Checker, Op
from tests.simulation.options import Options
from tests.simulation.view import Append, Entered, Shown, Told, View


class Mark(PlayerData):
    """What a seat keeps: its number, and how often the room spoke to it alone."""

    seat: int = 0
    told: int = 0


class Ledger(Room[Mark]):
    """Writes down what players say, answers each, and repeats it to all."""

    max_players = 3
    empty_ttl_s = 1.0
    checker: ClassVar[Checker]
    numbers: ClassVar[Iterator[int]]
    # Whether hooks come the moment that something happens, with no turns to wait for.
    is_prompt: ClassVar[bool] = True
    is_quiet: ClassVar[bool] = False

    def on_create(self, config: dict[str, Any]) -> Any:
        self.checker.note("on_create", self.kind, self.id)
        self.is_in_turn = False

    def on_join(self, player: Player[Mark]) -> Any:
        with self.turn():
            self.heard_of(player, "on_join")
            self.checker.expect("P4", len(self.players) <= self.max_players, f"{self.id} has {self.players}")
            self.show(player)

    def on_drop(self, player: Player[Mark]) -> Any:
        with self.turn():
            self.heard_of(player, "on_drop")

    def on_rejoin(self, player: Player[Mark]) -> Any:
        with self.turn():
            self.heard_of(player, "on_rejoin")
            self.tell(player, Op("", View.NEWS))

    def on_resync(self, player: Player[Mark]) -> Any:
        with self.turn():
            self.heard_of(player, "on_resync")
            self.show(player)

    def on_leave(self, player: Player[Mark], reason: Reason) -> Any:
        with self.turn():
            self.heard_of(player, "on_leave", reason)
            is_cause = reason is not Reason.DROPPED or self.disconnect == "hard"
            self.checker.expect("P3", is_cause, f"{player.id} lost a seat by a drop, and the room is soft")

    def on_tick(self, dt_s: float) -> Any:
        with self.turn():
            if not self.is_quiet:
                self.enter(self.checker.entered(self.id, Op("", 0)), Op("", 0), "")

    @on(Append)
    def append(self, player: Player[Mark], message: Append) -> Any:
        with self.turn():
            self.write(player, message)

    def write(self, player: Player[Mark], message: Append) -> None:
        op = Op(message.process, message.n)
        if message.is_refused:
            raise Refused(f"{op.process} {op.n}")
        at = self.checker.applied(self.id, player.id, op)
        self.tell(player, op, at)
        self.enter(at, op, message.ballast)

    def enter(self, at: int, op: Op, ballast: str) -> None:
        self.broadcast(Entered(at, op.process, op.n, ballast))

    def tell(self, player: Player[Mark], op: Op, at: int | None = None) -> None:
        next_at = len(self.checker.logs.get(self.id, ()))
        player.send(Told(player.data.told, self.id, next_at if at is None else at, op.process, op.n))
        player.data.told += 1

    def show(self, player: Player[Mark]) -> None:
        player.send(Shown(self.id, len(self.checker.logs.get(self.id, ())), player.data.told))

    def heard_of(self, player: Player[Mark], name: str, reason: str = "") -> None:
        if not player.data.seat:
            player.data.seat = next(self.numbers)
        grace_s = self.grace_s if self.is_prompt else 0.0
        self.checker.hook(name, player.id, player.data.seat, reason=reason, grace_s=grace_s)

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.checker.expect("P6", not self.is_in_turn, f"two turns of {self.id} at once")
        self.is_in_turn = True
        try:
            yield
        finally:
            self.is_in_turn = False


class SlowLedger(Ledger):
    """The same with `async def` everywhere: other things happen in the middle of its turns."""

    is_prompt = False
    handler_s: ClassVar[float]

    async def admit(self, player: Player[Mark]) -> None:
        await self.linger()

    async def on_join(self, player: Player[Mark]) -> None:
        await self.linger()
        super().on_join(player)

    async def on_drop(self, player: Player[Mark]) -> None:
        await self.linger()
        super().on_drop(player)

    async def on_rejoin(self, player: Player[Mark]) -> None:
        await self.linger()
        super().on_rejoin(player)

    async def on_resync(self, player: Player[Mark]) -> None:
        await self.linger()
        super().on_resync(player)

    async def on_leave(self, player: Player[Mark], reason: Reason) -> None:
        await self.linger()
        super().on_leave(player, reason)

    @on(Append)
    async def append(self, player: Player[Mark], message: Append) -> None:
        await self.linger()
        with self.turn():
            self.write(player, message)

    async def linger(self) -> None:
        await asyncio.sleep(self.random.random() * self.handler_s)


def rooms(checker: Checker, options: Options) -> list[type[Ledger]]:
    """The kinds of rooms of one world."""
    shared = {
        "checker": checker,
        "numbers": count(1),
        "grace_s": options.grace_s,
        "tick_hz": options.tick_hz,
        "handler_s": options.handler_s,
    }
    return [
        type(name, (base,), {**shared, "disconnect": disconnect})
        for name, base, disconnect in (
            ("Soft", Ledger, "soft"),
            ("SlowSoft", SlowLedger, "soft"),
            ("Hard", Ledger, "hard"),
            ("SlowHard", SlowLedger, "hard"),
        )
    ]
