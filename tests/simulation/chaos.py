"""Faults: what the network, the machines and the operators do to the players."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from random import Random
from typing import TYPE_CHECKING

from holdfast.testing import Link, Side
from holdfast.transports.port import DialError, TransportLimits
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class Chaos:
    """One fault after another, each at somebody who is chosen by chance, until the world heals."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.random = Random(f"{world.options.seed}/chaos")
        self._link_faults: dict[str, tuple[Callable[[Process, Link], None], int]] = {
            "cut": (lambda _, link: link.cut(), 4),
            "cut mid-payload": (lambda _, link: link.cut_next(self._side()), 4),
            "half-open": (lambda _, link: link.half_open(self._side()), 3),
            "stall": (lambda _, link: self._for_a_while(link.stall, link.flow), 3),
            "slow reader": (self._stop_reading, 2),
            "slow link": (self._slow_down, 2),
            "thin link": (self._thin, 2),
            "brittle link": (self._brittle, 2),
            "unreachable": (self._unreachable, 3),
            "late dial": (self._late, 3),
            "late hello": (self._late_hello, 1),
            "disconnected": (self._disconnect, 1),
            "kick": (self._kick, 1),
            "room closed": (self._close_room, 1),
        }

    async def run(self) -> None:
        """Go on until cancelled."""
        names = list(self._link_faults)
        weights = [weight for _, weight in self._link_faults.values()]
        while True:
            await asyncio.sleep(self.random.expovariate(1 / self.world.options.fault_s))
            victims = [p for p in self.world.processes if not p.is_over and p.dialer.link.is_open]
            if not victims:
                continue
            victim = self.random.choice(victims)
            name = self.random.choices(names, weights)[0]
            self.world.checker.note("fault:", name, victim.label)
            self.world.checker.count(f"fault: {name}")
            self._link_faults[name][0](victim, victim.dialer.link)

    def _side(self) -> Side:
        return self.random.choice(["client", "server"])

    def _for_a_while(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        begin()
        self.world.start(self._later(self.random.choice([0.2, 1.0, 5.0]), end))

    async def _later(self, seconds: float, call: Callable[[], None]) -> None:
        await asyncio.sleep(seconds)
        call()

    def _stop_reading(self, _: Process, link: Link) -> None:
        side = self._side()
        self._for_a_while(lambda: link.stop_reading(side), lambda: link.read_on(side))

    def _slow_down(self, victim: Process, link: Link) -> None:
        """The way is long, for this link and the next ones: even a hello may come too late."""
        dialer = victim.dialer
        link.latency_s = dialer.latency_s = self.random.choice([0.1, 0.5, 1.6])
        self.world.start(self._later(self.random.uniform(1.0, 8.0), lambda: setattr(dialer, "latency_s", None)))
        if self.random.random() < 0.5:
            link.cut()

    def _thin(self, victim: Process, link: Link) -> None:
        """This link and the next ones carry little: payloads come in by the byte, and some are cut as silent."""
        dialer = victim.dialer
        link.bytes_per_s = dialer.bytes_per_s = self.random.choice([500.0, 2_000.0, 10_000.0])
        self.world.start(self._later(self.random.uniform(1.0, 8.0), lambda: setattr(dialer, "bytes_per_s", inf)))

    def _brittle(self, victim: Process, link: Link) -> None:
        """This link and the next ones break after so many bytes."""
        dialer = victim.dialer
        dialer.cut_after_bytes = self.random.choice([600.0, 2_000.0])
        link.cut_after(self._side(), self.random.expovariate(1 / dialer.cut_after_bytes))
        self.world.start(self._later(self.random.uniform(1.0, 8.0), lambda: setattr(dialer, "cut_after_bytes", inf)))

    def _unreachable(self, victim: Process, link: Link) -> None:
        dialer = victim.dialer
        dialer.is_down = True
        seconds = self.random.choice([0.5, 2.0, self.world.options.grace_s + 4.0])
        self.world.start(self._later(seconds, lambda: setattr(dialer, "is_down", False)))
        link.cut()

    def _late(self, victim: Process, link: Link) -> None:
        dialer = victim.dialer
        dialer.delay_s = self.random.choice([0.3, 1.4, 3.0])
        self.world.start(self._later(self.random.uniform(1.0, 5.0), lambda: setattr(dialer, "delay_s", 0.0)))
        link.cut()

    def _late_hello(self, victim: Process, link: Link) -> None:
        """A connection that the client has given up reaches the server after all, perhaps after a newer one."""
        victim.excuses |= {"superseded", "token_reused", "reset"}
        self.world.start(self._deliver_again(link, self.random.choice([0.0, 0.1, 1.0])))

    async def _deliver_again(self, link: Link, after_s: float) -> None:
        await asyncio.sleep(after_s)
        limits = TransportLimits.of(self.world.options.limits)
        with suppress(DialError):
            url = self.world.url(self.random)
            await self.world.network.deliver_again(link, url, limits, stay_s=self.random.choice([0.0, 0.5, 3.0]))

    # Operators

    def _disconnect(self, victim: Process, _: Link) -> None:
        server, session = self.world.home_of(victim.session.id), self.world.session(victim.session.id)
        if server is not None and session is not None:
            server.machine.call(session.disconnect, "by the operator")

    def _kick(self, victim: Process, _: Link) -> None:
        server, session = self.world.home_of(victim.session.id), self.world.session(victim.session.id)
        if server is not None and session is not None and session.player is not None:
            server.machine.call(session.player.kick, "by the operator")

    def _close_room(self, *_: object) -> None:
        places = [(server, room) for server in self.world.running for room in server.rooms]
        if places:
            server, room = self.random.choice(places)
            server.machine.call(room.close)

    def heal(self) -> None:
        """Everything works again."""
        self.world.checker.note("healed")
        in_use = [actor.process for actor in self.world.actors]
        for process in self.world.processes:
            if process not in in_use and not process.is_over:
                process.kill(silently=False)
        for process in self.world.processes:
            process.pause_s = 0.0
            process.dialer.is_down = False
            process.dialer.delay_s = 0.0
            process.dialer.latency_s = None
            process.dialer.bytes_per_s = process.dialer.cut_after_bytes = inf
        for link in self.world.network.links:
            if link.bytes_per_s < inf or link.is_doomed:
                # What was sent with a rate arrives at that rate: only a new link is better.
                link.cut()
                continue
            link.latency_s = self.world.options.latency_s
            link.flow()
            link.read_on("client")
            link.read_on("server")
