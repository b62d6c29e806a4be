"""docs/architecture.md lists the hops of each walk; here the calls of a real server are traced and compared with it."""

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType

import pytest

import holdfast
from holdfast import ClientRoom, ClientSession, Message, Player, PlayerData, Room, on
from holdfast.testing import FaultyStore, MemoryServer, run

SOURCE = Path(holdfast.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"

# What a hop may use on its way without being a hop itself: rules, data, the transport of the test, what is only seen.
BESIDE = ("core/", "schemas/", "search/", "client/", "testing/", "transports/", "stores/", "logs/", "observability/")

Hop = tuple[str, str]


class Ask(Message):
    number: int


class Answer(Message):
    number: int


class Score(PlayerData):
    asked: int = 0


class Lounge(Room[Score]):
    @on(Ask)
    def ask(self, player: Player[Score], ask: Ask) -> None:
        player.data.asked += 1
        player.send(Answer(ask.number))

    def on_resync(self, player: Player[Score]) -> None:
        player.send(Answer(player.data.asked))


class Vault(Lounge):
    durability = "commit"


def documented(walk: str) -> tuple[list[Hop], set[str]]:
    """The hops of a walk, which are the lines "file function  what happens" under its heading, and its "Also" files."""
    _, _, after = PAGE.read_text().partition(f"### {walk}\n")
    assert after, f"docs/architecture.md has no walk called {walk!r}"
    section = after.split("\n#")[0]
    hops = re.findall(r"^(\S+\.py) +(\S+)", section.split("```")[1], re.MULTILINE)
    also = re.findall(r"\S+\.py", section.partition("\nAlso: ")[2].split("\n\n")[0])
    assert hops, f"the walk {walk!r} has no hops"
    return hops, set(also)


@contextmanager
def traced() -> Iterator[list[Hop]]:
    """The calls of our own code meanwhile, in order."""
    calls: list[Hop] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            calls.append((Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_qualname))

    sys.setprofile(record)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@asynccontextmanager
async def seated(kind: str) -> AsyncIterator[tuple[MemoryServer, ClientSession, ClientRoom]]:
    async with MemoryServer([Lounge, Vault], store=FaultyStore()) as server:
        ada = await server.connect("ada", messages=[Answer])
        room = await ada.join_or_create(kind)
        await room.send(Ask(1))
        assert await room.receive() == Answer(1)
        yield server, ada, room


async def a_message(kind: str) -> list[Hop]:
    async with seated(kind) as (_, _, room):
        with traced() as calls:
            await room.send(Ask(2))
            assert await room.receive() == Answer(2)
    return calls


async def a_resume() -> list[Hop]:
    async with seated("lounge") as (server, ada, room):
        with traced() as calls:
            server.link(ada).cut()
            await room.send(Ask(2))
            assert await room.receive() == Answer(2)
    assert ada.drops == 1
    return calls


async def a_join_or_create() -> list[Hop]:
    async with MemoryServer([Lounge]) as server:
        ada = await server.connect("ada", messages=[Answer])
        with traced() as calls:
            await ada.join_or_create("lounge")
    return calls


async def a_recovery() -> list[Hop]:
    async with seated("vault") as (server, _, _):
        server.crash()
        with traced() as calls:
            await server.start()
    return calls


WALKS: dict[str, Callable[[], Awaitable[list[Hop]]]] = {
    "A message in a memory room": lambda: a_message("lounge"),
    "A message in a durable room": lambda: a_message("vault"),
    "A resume": a_resume,
    "join_or_create": a_join_or_create,
    "A recovery": a_recovery,
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_takes_the_hops_of_the_page_in_their_order_and_no_other_file(walk: str) -> None:
    hops, also = documented(walk)
    calls: list[Hop] = []

    run(_into(calls, WALKS[walk]()))

    position = 0
    for hop in hops:
        assert hop in calls[position:], f"{hop} is on the page, but was not called after the hops before it"
        position = calls.index(hop, position) + 1
    way = calls[calls.index(hops[0]) : position]
    used = {file for file, _ in way if not file.startswith(BESIDE)}
    assert used - also - {file for file, _ in hops} == set(), "the page leaves these files out"
    assert also - used == set(), "the page names these files, but the walk does not use them"


async def _into(calls: list[Hop], walk: Awaitable[list[Hop]]) -> None:
    calls += await walk
