"""Worlds whose links never heal: slow all the time, or broken after a few kilobytes, with a backlog on both ends.

What the other worlds check when everything works again has to hold here as it is: all gets through, once and in order,
in a time that follows from the link, and a link that is only slow is never cut.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from random import Random

from holdfast import ClientSession, Limits, Message, Player, PlayerData, Room, SessionEnded, on
from holdfast.client.room import ClientRoom
from holdfast.testing import Link, MemoryServer, run

MORE_S = 20.0
"""Beside the time that the bytes take: dials, waits, and the last acknowledgement."""


class Piece(Message):
    number: int
    ballast: str


class Depot(Room[PlayerData]):
    """Takes what comes, and has sent something to whoever was away."""

    def on_create(self, _: object) -> None:
        self.taken: list[int] = []

    @on(Piece)
    def took(self, _: Player[PlayerData], piece: Piece) -> None:
        self.taken.append(piece.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLink:
    """One world, and what follows from its seed."""

    bytes_per_s: float
    cut_after_bytes: float
    up: list[int]
    """The sizes of what waits for the server."""
    down: list[int]
    limits: Limits

    @classmethod
    def slow(cls, seed: int) -> "BadLink":
        """A link that carries little, and messages of all sizes: some take longer than any silence."""
        random = Random(f"{seed}/slow link")
        sizes = random.choice([(20, 400), (20, 400), (100, 8_000), (40_000, 60_000)])
        return cls(
            bytes_per_s=random.choice([2_000.0, 3_000.0, 10_000.0]),
            cut_after_bytes=inf,
            up=cls._backlog(random, sizes),
            down=cls._backlog(random, sizes),
            limits=Limits(),
        )

    @classmethod
    def breaking(cls, seed: int) -> "BadLink":
        """Links that break again and again."""
        random = Random(f"{seed}/breaking link")
        return cls(
            bytes_per_s=random.choice([3_000.0, 20_000.0, inf]),
            cut_after_bytes=random.choice([6_000.0, 8_000.0]),
            up=cls._backlog(random, (20, 400)),
            down=cls._backlog(random, (20, 400)),
            limits=Limits(),
        )

    @staticmethod
    def _backlog(random: Random, sizes: tuple[int, int]) -> list[int]:
        """What fits into a window: up to 200 KiB, or nothing."""
        backlog: list[int] = []
        wanted = random.choice([0, 60_000, 200_000])
        while sum(backlog) + 100 * len(backlog) < wanted:
            backlog.append(random.randint(*sizes))
        return backlog

    @property
    def enough_s(self) -> float:
        """Twice what the link needs if nothing is sent in vain, and a little for each connection."""
        most = max(sum(sizes) + 64 * len(sizes) for sizes in (self.up, self.down))
        return 2 * most / self.bytes_per_s + 4.0 * most / self.cut_after_bytes + MORE_S


def violations(world: BadLink, seed: int) -> list[str]:
    """What does not hold in this world."""
    return run(_violations(world, seed))


async def _violations(world: BadLink, seed: int) -> list[str]:
    async with MemoryServer([Depot], seed=seed, limits=world.limits) as server:
        client = await server.connect("ada", messages=[Piece])
        room = await client.join_or_create("depot")
        await _fill(world, server, client, room)
        links = len(server.dialer(client).links)
        got: list[int] = []

        with suppress(TimeoutError, SessionEnded):
            async with asyncio.timeout(world.enough_s):
                await asyncio.gather(room.flush(), _read(room, len(world.down), got))

        (depot,) = server.rooms
        assert isinstance(depot, Depot)
        cuts = server.dialer(client).links[links + 1 :]
        return list(_broken(world, depot.taken, got, cuts))


async def _fill(world: BadLink, server: MemoryServer, client: ClientSession, room: ClientRoom) -> None:
    """Both ends have something to say, and nobody can hear it; then the way is open, and bad."""
    dialer = server.dialer(client)
    dialer.bytes_per_s, dialer.cut_after_bytes = world.bytes_per_s, world.cut_after_bytes
    dialer.is_down = True
    server.link(client).cut()
    await asyncio.sleep(0.01)
    (depot,) = server.rooms
    for number, size in enumerate(world.down):
        server.machine.call(depot.broadcast, Piece(number, "d" * size))
    for number, size in enumerate(world.up):
        await room.send(Piece(number, "u" * size))
    dialer.is_down = False


async def _read(room: ClientRoom, count: int, got: list[int]) -> None:
    while len(got) < count:
        message = await anext(room)
        assert isinstance(message, Piece)
        got.append(message.number)


def _broken(world: BadLink, taken: list[int], got: list[int], cuts: list[Link]) -> Iterator[str]:
    for what, numbers, sizes in (("up", taken, world.up), ("down", got, world.down)):
        if numbers != list(range(len(sizes))):
            yield f"{what}: {len(numbers)} of {len(sizes)} in {world.enough_s:.0f} s"
    if world.cut_after_bytes == inf and cuts:
        yield f"a link that is only slow was cut {len(cuts)} times"
