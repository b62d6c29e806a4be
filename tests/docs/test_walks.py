"""docs/architecture.md lists the hops of each walk; here the calls of a real server are traced and compared with it."""

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast import ClientRoom, ClientSession, Message, Player, PlayerData, Room, on
from holdfast.stores import MemoryStore
from holdfast.testing import MemoryServer, run

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


def documented(walk: str) -> list[Hop]:
    """The hops of a walk: the lines "file function  what happens" of the block under its heading."""
    section = PAGE.read_text().split(f"### {walk}\n")
    assert len(section) == 2, f"docs/architecture.md has no walk called {walk!r}"
    block = section[1].split("```")[1]
    hops = re.findall(r"^(\S+\.py) +(\S+)", block, re.MULTILINE)
    assert hops, f"the walk {walk!r} has no hops"
    return hops


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
async def seated(
    kind: str, store: MemoryStore | None = None
) -> AsyncIterator[tuple[MemoryServer, ClientSession, ClientRoom]]:
    async with MemoryServer([Lounge, Vault], store=store or MemoryStore()) as server:
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
    assert ada.resumes == 1
    return calls


async def a_join_or_create() -> list[Hop]:
    async with MemoryServer([Lounge]) as server:
        ada = await server.connect("ada", messages=[Answer])
        with traced() as calls:
            await ada.join_or_create("lounge")
    return calls


async def a_recovery() -> list[Hop]:
    store = MemoryStore()
    async with seated("vault", store):
        pass
    with traced() as calls:
        async with MemoryServer([Lounge, Vault], store=store):
            pass
    return calls


WALKS: dict[str, Callable[[], Awaitable[list[Hop]]]] = {
    "A message in a memory room": lambda: a_message("lounge"),
    "A message in a durable room": lambda: a_message("vault"),
    "A resume": a_resume,
    "join_or_create": a_join_or_create,
    "A recovery": a_recovery,
}


@pytest.mark.parametrize("walk", WALKS)
def test_the_hops_of_a_walk_are_those_of_the_page_in_that_order(walk: str) -> None:
    hops = documented(walk)

    calls: list[Any] = []
    run(_into(calls, WALKS[walk]()))

    missing = [hop for hop in hops if hop not in calls]
    assert not missing, f"these hops are on the page, but were not called: {missing}"
    in_order = list(dict.fromkeys(call for call in calls if call in hops))
    assert in_order == hops


@pytest.mark.parametrize("walk", WALKS)
def test_no_file_of_the_server_is_on_the_way_that_the_page_leaves_out(walk: str) -> None:
    hops = documented(walk)

    calls: list[Any] = []
    run(_into(calls, WALKS[walk]()))

    between = calls[calls.index(hops[0]) : len(calls) - calls[::-1].index(hops[-1])]
    left_out = {file for file, _ in between if not file.startswith(BESIDE)} - {file for file, _ in hops}
    assert not left_out, f"the walk {walk!r} also goes through {sorted(left_out)}"


async def _into(calls: list[Hop], walk: Awaitable[list[Hop]]) -> None:
    calls += await walk
