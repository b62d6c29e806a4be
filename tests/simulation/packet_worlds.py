"""Worlds of packets: ENet alone on a drawn network, and whole servers whose unreliable messages travel over UDP.

Their networks lose, delay, double and reorder packets; links break, addresses change, UDP is blocked for a while,
players sign in elsewhere, the server dies, and somebody sends old, changed and stolen packets from everywhere. What has
to hold:

- reliable messages arrive exactly once and in order, as without UDP;
- an unreliable message arrives at most once, none of an earlier connection after one of a later connection, and over
  one way none after a newer one;
- who has no key has no effect, and no unproven address gets more bytes than it sent;
- when the network is good again, the newest value arrives, over UDP where that is offered.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from holdfast import ClientSession, Limits, Message, Player, PlayerData, Room, SessionEnded, on
from holdfast.client.room import ClientRoom
from holdfast.core.errors import Refused
from holdfast.testing import FaultyStore, MemoryServer, Network, UdpNetwork, generous, run
from holdfast.transports.datagram_sockets import Address
from tests.transports.enet.world import LIMITS, Weather
from tests.transports.enet.world import World as EnetWorld

PLAYERS = 3
STEPS = 60
STEP_S = 0.1
SETTLE_S = 200.0
THIEF: Address = ("203.0.113.66", 6666)


@dataclass(slots=True)
class Report:
    """What became of one world."""

    seed: int
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def simulate_packets(seed: int) -> Report:
    """The worlds of this seed."""
    report = Report(seed)
    _enet(report)
    try:
        run(_udp(report))
    except Refused as refused:
        report.violations.append(f"a client was refused something: {refused!r}")
    return report


# ENet, both ends of one connection, without a server


def _enet(report: Report) -> None:
    random = Random(f"{report.seed}/enet")
    mtu = random.choice([576, 1200])
    slowest_s = random.choice([0.05, 0.1, 0.3])
    weather = Weather(
        loss=random.choice([0.0, 0.02, 0.1, 0.3]),
        duplication=random.choice([0.0, 0.05]),
        delay_s=(0.02, slowest_s),
        bytes_max=mtu,
    )
    world = EnetWorld(report.seed, weather, limits=replace(LIMITS, udp_bytes_max=mtu, udp_timeout_s=60.0)).connect()
    assert world.server is not None
    sent: dict[str, list[bytes]] = {"client": [], "server": []}
    for number in range(random.choice([20, 80])):
        for to, peer in (("server", world.client), ("client", world.server)):
            # Of one packet, and of many fragments.
            payload = b"%d " % number + bytes(random.choice([0, 100, 600, 5_000]))
            sent[to].append(payload)
            peer.send(payload)
            peer.send_datagram(b"%d" % number)
        if random.random() < 0.5:
            until = world.now + random.uniform(0.0, 0.2)
            world.run(lambda until=until: world.now >= until)  # type: ignore[misc]  # a lambda for now
    world.run(lambda: world.received == sent or _is_broken(world, sent), within_s=600.0)
    report.counts["enet packets"] += world.packets
    for to, payloads in sent.items():
        if world.received[to] != payloads:
            report.violations.append(f"ENet: the {to} did not get the payloads once and in order")
        newest = [int(each) for each in world.datagrams[to]]
        report.counts["enet datagrams"] += len(newest)
        if newest != sorted(set(newest)):
            report.violations.append(f"ENet: the {to} got a datagram twice, or after a newer one")


def _is_broken(world: EnetWorld, sent: dict[str, list[bytes]]) -> bool:
    return any(world.received[to] != payloads[: len(world.received[to])] for to, payloads in sent.items())


# A whole server


class Mark(Message):
    """Reliable, from a player and back to everybody."""

    player: str
    number: int


class Aim(Message):
    """Unreliable: of which connection of its player, and which in a row."""

    player: str
    connection: int
    number: int
    way: str


class Field(Room[PlayerData]):
    """Hears marks and aims, and tells them to everybody."""

    max_players = 16
    durability = "commit"
    duplicate = "takeover"
    grace_s = 600.0
    sends = (Mark, Aim)
    checks: "Checks"

    def on_recover(self) -> None:
        """What was unreliable is not saved, and neither is what the checks know of it."""

    @on(Mark)
    def marked(self, player: Player[PlayerData], mark: Mark) -> None:
        """Reliable."""
        self.broadcast(mark)

    @on(Aim)
    def aimed(self, player: Player[PlayerData], aim: Aim) -> None:
        """Unreliable."""
        self.checks.heard("the room", aim)
        for each in self.players:
            each.send_latest(Aim(aim.player, aim.connection, aim.number, ""), aim.player)


class Checks:
    """What has arrived where."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._aims: dict[tuple[str, str], set[int]] = {}
        self._connections: dict[tuple[str, str], int] = {}
        self._newest: dict[tuple[str, str, int], int] = {}
        self._received_bytes: Counter[Address] = Counter()

    def fail(self, what: str) -> None:
        self.report.violations.append(what)

    def heard(self, where: str, aim: Aim) -> None:
        """An unreliable message has arrived in a room, from a client."""
        key = where, aim.player
        seen = self._aims.setdefault(key, set())
        if aim.number in seen:
            self.fail(f"{where} heard aim {aim.number} of {aim.player} twice")
        seen.add(aim.number)
        if aim.connection < self._connections.get(key, 0):
            self.fail(f"{where} heard aim {aim.number} of connection {aim.connection} of {aim.player}, which was over")
        self._connections[key] = max(aim.connection, self._connections.get(key, 0))
        way = (aim.way, aim.player, aim.connection)
        if aim.way == "udp" and aim.number < self._newest.get(way, 0):
            self.fail(f"{where} heard aim {aim.number} of {aim.player} over UDP after a newer one")
        self._newest[way] = max(aim.number, self._newest.get(way, 0))
        self.report.counts[f"aims over {aim.way or 'any'}"] += 1

    def packet(self, address: Address, datagram: bytes, is_for_server: bool) -> None:
        """An address that was never proven gets no more than it sent."""
        if address == THIEF:
            self._received_bytes[address] += len(datagram) if is_for_server else -len(datagram)
            if self._received_bytes[address] < 0:
                self.fail("an unproven address got more bytes than it sent")


class Avatar:
    """One player, whose client may be replaced by another."""

    def __init__(self, world: "UdpWorld", name: str) -> None:
        self.world = world
        self.name = name
        self.session: ClientSession
        self.room: ClientRoom
        self.connections = 0
        self.marks = self.aims = 0
        self.heard: list[int] = []
        """The marks of its own that it has heard, since its present client has joined."""
        self._first_mark = 0
        self._reader: asyncio.Task[None] | None = None

    async def enter(self, room_id: str = "") -> str:
        """With a first client, or another one: that is a takeover."""
        session = await self.world.server.connect(self.name, messages=[Mark, Aim], give_up_s=float("inf"))
        # Before its first datagram, and those of the old client are of an older connection from now on.
        self.connections += 1
        session.on_resume(lambda _: self._resumed())
        join = session.join(room_id) if room_id else session.join_or_create("field")
        self.room = await join
        self.session = session
        self._first_mark, self.heard = self.marks, []
        if self._reader is not None:
            self._reader.cancel()
        self._reader = asyncio.create_task(self._read(self.room))
        return self.room.id

    def _resumed(self) -> None:
        self.connections += 1

    async def _read(self, room: ClientRoom) -> None:
        while True:
            message = await room.receive()
            if isinstance(message, Mark) and message.player == self.name and message.number > self._first_mark:
                self.heard.append(message.number)
            elif isinstance(message, Aim) and message.player == self.name:
                self.world.newest[self.name] = max(message.number, self.world.newest[self.name])

    def aim(self) -> None:
        self.aims += 1
        way = self.session.latest_transport
        self.room.send_latest(Aim(self.name, self.connections, self.aims, way), self.name)

    async def mark(self) -> None:
        self.marks += 1
        await self.room.send(Mark(self.name, self.marks))

    @property
    def is_settled(self) -> bool:
        return len(self.heard) >= self.marks - self._first_mark

    def check(self) -> None:
        if self.heard != list(range(self._first_mark + 1, self.marks + 1)):
            self.world.checks.fail(f"{self.name} heard its marks as {self.heard}, of {self.marks}")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()


class UdpWorld:
    """One server, its players, and what goes wrong."""

    def __init__(self, report: Report) -> None:
        self.random = random = Random(f"{report.seed}/udp")
        self.checks = Checks(report)
        self.newest: Counter[str] = Counter()
        self.udp = UdpNetwork(
            Random(f"{report.seed}/packets"),
            loss=random.choice([0.0, 0.02, 0.2]),
            doubled=random.choice([0.0, 0.1]),
            latency_s=random.choice([0.001, 0.05]),
            jitter_s=random.choice([0.0, 0.02, 0.2]),
        )
        self.udp.on_packet = self._packet
        self._kept: list[tuple[Address, bytes]] = []
        kind = type("Field", (Field,), {"checks": self.checks, "__module__": __name__})
        limits = Limits(ping_s=1.0, silence_s=3.2, udp_silence_s=random.choice([1.5, 3.0]))
        self.server = MemoryServer(
            [kind],
            seed=report.seed,
            udp=self.udp,
            network=Network(Random(f"{report.seed}/streams"), latency_s=0.02, jitter_s=0.01),
            store=FaultyStore(),
            limits=generous(limits),
        )
        self.avatars = [Avatar(self, f"player{number}") for number in range(PLAYERS)]

    def _packet(self, address: Address, datagram: bytes, is_for_server: bool) -> None:
        self.checks.packet(address, datagram, is_for_server)
        if is_for_server and address != THIEF:
            if self.random.random() < 0.05:
                self._kept.append((address, datagram))
            if self.random.random() < 0.1:
                # It may arrive before the client's own.
                self.udp.to_server(1, THIEF, datagram)

    async def live(self) -> None:
        """Play while things go wrong, until everything is well again."""
        async with self.server:
            room_id = ""
            for avatar in self.avatars:
                room_id = await avatar.enter(room_id)
            for _ in range(STEPS):
                for avatar in self.avatars:
                    avatar.aim()
                    if self.random.random() < 0.3:
                        await avatar.mark()
                await self._go_wrong(room_id)
                await asyncio.sleep(STEP_S * self.random.random())
            await self._settle()
            self._count()
            for avatar in self.avatars:
                avatar.close()

    async def _go_wrong(self, room_id: str) -> None:
        random, counts = self.random, self.checks.report.counts
        avatar = random.choice(self.avatars)
        what = random.choice(
            ["nothing"] * 8 + ["cut", "half-open", "move", "block", "takeover", "crash", *["replay"] * 4]
        )
        if what == "takeover" and not all(each.is_settled for each in self.avatars):
            return  # a new client has not the other's unheard marks
        counts[f"packets: {what}"] += what != "nothing"
        match what:
            case "cut":
                self.server.link(avatar.session).cut()
            case "half-open":
                self.server.link(avatar.session).half_open("client")
            case "move":
                self.udp.sockets[avatar.name].move()
            case "block":
                self.udp.is_blocked = not self.udp.is_blocked
            case "takeover":
                await avatar.enter(room_id)
            case "crash" if random.random() < 0.3:
                self.server.crash()
                await asyncio.sleep(random.random())
                await self.server.start()
            case "replay" if self._kept:
                self._replay()

    def _replay(self) -> None:
        address, datagram = self.random.choice(self._kept)
        if self.random.random() < 0.5:
            changed = bytearray(datagram)
            changed[self.random.randrange(len(changed))] ^= 1 << self.random.randrange(8)
            datagram = bytes(changed)
        self.udp.to_server(1, self.random.choice([address, THIEF]), datagram)

    async def _settle(self) -> None:
        self.udp.is_blocked, self.udp.loss, self.udp.jitter_s = False, 0.0, 0.0
        try:
            async with asyncio.timeout(SETTLE_S):
                while not all(self._is_well(avatar) for avatar in self.avatars):
                    for avatar in self.avatars:
                        avatar.aim()
                    await asyncio.sleep(0.5)
        except TimeoutError:
            ways = {each.name: (each.session.latest_transport, each.marks, len(each.heard)) for each in self.avatars}
            self.checks.fail(f"it did not settle: {ways}")
        for avatar in self.avatars:
            avatar.check()

    def _is_well(self, avatar: Avatar) -> bool:
        is_newest = self.newest[avatar.name] >= avatar.aims - 2
        return avatar.is_settled and is_newest and avatar.session.latest_transport == "udp"

    def _count(self) -> None:
        counters, counts = self.server.counters, self.checks.report.counts
        for why in ("unknown", "forged", "late"):
            counts[f"datagrams {why}"] += getattr(counters, f"datagrams_{why}")
        if counters.protocol_errors or counters.internal_errors:
            self.checks.fail(f"{counters.protocol_errors} protocol errors, {counters.internal_errors} internal errors")


async def _udp(report: Report) -> None:
    try:
        await UdpWorld(report).live()
    except SessionEnded as error:
        report.violations.append(f"a session has ended: {error}")


def summary(reports: list[Report]) -> dict[str, Any]:
    """What was tried, added up."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts += report.counts
    return dict(sorted(counts.items()))
