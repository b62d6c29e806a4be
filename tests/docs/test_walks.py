"""docs/architecture.md lists the hops of each walk; here the calls of a real server are traced and compared with it."""

import inspect
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

import holdfast
from holdfast import ClientRoom, ClientSession, Message, Player, PlayerData, Room, on
from holdfast.testing import Disk, FaultyStore, MemoryServer, Network, run
from holdfast.testing.bus import BusNetwork
from tests.compiled import traces_calls

pytestmark = traces_calls

SOURCE = Path(holdfast.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"

# What a hop may use on its way without being a hop itself: rules, data, the transport of the test, what is only seen.
BESIDE = ("core/", "schemas/", "search/", "client/", "testing/", "transports/", "stores/", "logs/", "observability/")

Hop = tuple[str, str]
RESUMABLE = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class Call(NamedTuple):
    """A call of our own code, and the files of its callers, nearest first."""

    hop: Hop
    callers: tuple[str, ...]


class Walk(NamedTuple):
    """A walk as the page describes it."""

    hops: list[Hop]
    also: set[str]
    back: set[str]
    """The functions in which it goes back to the file of an earlier hop."""


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


def documented(walk: str) -> Walk:
    """The hops of a walk, which are the lines "file function  what happens" under its heading; the files of its "Also",
    the functions of its "Back"."""
    _, _, after = PAGE.read_text().partition(f"### {walk}\n")
    assert after, f"docs/architecture.md has no walk called {walk!r}"
    section = after.split("\n#")[0]
    hops = re.findall(r"^(\S+\.py) +(\S+)", section.split("```")[1], re.MULTILINE)
    also = re.findall(r"\S+\.py", section.partition("\nAlso: ")[2].split("\n\n")[0])
    back = re.findall(r"`([\w.]+)`", section.partition("\nBack: ")[2].split("\n\n")[0])
    assert hops, f"the walk {walk!r} has no hops"
    return Walk(hops, set(also), set(back))


@contextmanager
def traced() -> Iterator[list[Call]]:
    """The calls of our own code meanwhile, in order; that a coroutine goes on is not a call."""
    calls: list[Call] = []
    begun: dict[int, FrameType] = {}

    def record(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not is_ours(frame) or begun.get(id(frame)) is frame:
            return
        if frame.f_code.co_flags & RESUMABLE:
            begun[id(frame)] = frame
        calls.append(Call((file_of(frame), frame.f_code.co_qualname), tuple(callers(frame))))

    sys.setprofile(record)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(SOURCE))


def file_of(frame: FrameType) -> str:
    return Path(frame.f_code.co_filename).relative_to(SOURCE).as_posix()


def callers(frame: FrameType) -> Iterator[str]:
    caller = frame.f_back
    while caller is not None:
        if is_ours(caller):
            yield file_of(caller)
        caller = caller.f_back


@asynccontextmanager
async def seated(kind: str) -> AsyncIterator[tuple[MemoryServer, ClientSession, ClientRoom]]:
    async with MemoryServer([Lounge, Vault], store=FaultyStore()) as server:
        ada = await server.connect("ada", messages=[Answer])
        room = await ada.join_or_create(kind)
        await room.send(Ask(1))
        assert await room.receive() == Answer(1)
        yield server, ada, room


async def a_message(kind: str) -> list[Call]:
    async with seated(kind) as (_, _, room):
        with traced() as calls:
            await room.send(Ask(2))
            assert await room.receive() == Answer(2)
    return calls


async def a_resume() -> list[Call]:
    async with seated("lounge") as (server, ada, room):
        with traced() as calls:
            server.link(ada).cut()
            await room.send(Ask(2))
            assert await room.receive() == Answer(2)
    assert ada.drops == 1
    return calls


async def a_join_or_create() -> list[Call]:
    async with MemoryServer([Lounge]) as server:
        ada = await server.connect("ada", messages=[Answer])
        with traced() as calls:
            await ada.join_or_create("lounge")
    return calls


async def a_recovery() -> list[Call]:
    async with seated("vault") as (server, _, _):
        server.crash()
        with traced() as calls:
            await server.start()
    return calls


@asynccontextmanager
async def two_nodes() -> AsyncIterator[tuple[MemoryServer, MemoryServer, ClientSession, ClientRoom]]:
    """Two nodes, and a player on a table of the first who also knows the second."""
    network, buses, disk = Network(), BusNetwork(), Disk()
    first, second = (
        MemoryServer([Lounge, Vault], name=name, network=network, cluster=buses, store=FaultyStore(disk))
        for name in ("first", "second")
    )
    async with first, second:
        ada = await first.connect("ada", url=[first.address, second.address], messages=[Answer])
        room = await ada.join_or_create("vault")
        await room.send(Ask(1))
        assert await room.receive() == Answer(1)
        yield first, second, ada, room
        await ada.close()


async def a_relay() -> list[Call]:
    async with two_nodes() as (_, second, _, room):
        bob = await second.connect("bob", messages=[Answer])
        await bob.join(room.id)
        with traced() as calls:
            second.link(bob).cut()
            await bob.search("vault")
        await bob.close()
    return calls


async def a_takeover() -> list[Call]:
    async with two_nodes() as (first, _, _, room):
        with traced() as calls:
            first.crash()
            await room.send(Ask(2))
            assert await room.receive() == Answer(2)
        await first.start()
    return calls


async def a_move() -> list[Call]:
    async with two_nodes() as (first, _, _, room):
        assert first.parts.cluster is not None
        with traced() as calls:
            await first.parts.cluster.migration.move(room.id, "second")
            await room.send(Ask(2))
            assert await room.receive() == Answer(2)
    return calls


WALKS: dict[str, Callable[[], Awaitable[list[Call]]]] = {
    "A message in a memory room": lambda: a_message("lounge"),
    "A message in a durable room": lambda: a_message("vault"),
    "A resume": a_resume,
    "join_or_create": a_join_or_create,
    "A recovery": a_recovery,
}

BETWEEN_NODES: dict[str, Callable[[], Awaitable[list[Call]]]] = {
    "A resume by way of another node": a_relay,
    "A takeover": a_takeover,
    "A move to another node": a_move,
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_takes_the_hops_of_the_page_in_their_order_and_no_other_file(walk: str) -> None:
    page = documented(walk)

    way = walked(walk, page.hops)

    used = {call.hop[0] for part in way for call in part if not call.hop[0].startswith(BESIDE)}
    assert used - page.also - {file for file, _ in page.hops} == set(), "the page leaves these files out"
    assert page.also - used == set(), "the page names these files, but the walk does not use them"


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_never_goes_back_to_a_file_that_it_has_left_but_where_the_page_says_so(walk: str) -> None:
    page = documented(walk)

    back = goes_back(page.hops, walked(walk, page.hops))

    assert back - page.back == set(), "these functions of earlier files are called by later ones"
    assert page.back - back == set(), "the page names these functions, but the walk does not go back to them"


@pytest.mark.parametrize("walk", BETWEEN_NODES)
def test_a_walk_between_nodes_takes_the_hops_of_the_page_in_their_order(walk: str) -> None:
    # Both nodes do other things meanwhile: which files they use and where they go back says nothing.
    page = documented(walk)

    assert len(walked(walk, page.hops)) == len(page.hops)


def test_going_back_is_noticed() -> None:
    hops = [("a.py", "f"), ("b.py", "g"), ("c.py", "h")]
    down = [Call(("a.py", "f"), ()), Call(("b.py", "g"), ("a.py",)), Call(("c.py", "h"), ("b.py", "a.py"))]
    parts = [[down[0]], [down[1]], [down[2], Call(("a.py", "told"), ("beside.py", "c.py", "b.py", "a.py"))]]

    assert goes_back(hops, parts) == {"told"}
    assert goes_back([*hops, ("a.py", "last")], [*parts, []]) == set(), "the page says that it ends there"
    parts[2] = [down[2], Call(("b.py", "next"), ("a.py",))]
    assert goes_back(hops, parts) == set(), "the caller goes on after the return"


def goes_back(hops: list[Hop], way: list[list[Call]]) -> set[str]:
    """The functions that a file calls in the file of an earlier hop, if no hop to come is in that file."""
    first = {file: number for number, (file, _) in reversed(list(enumerate(hops)))}
    found: set[str] = set()
    for number, part in enumerate(way):
        to_come = {file for file, _ in hops[number:]}
        for (file, function), files in part:
            caller = next((each for each in files if each in first), file)
            if file in first and file not in to_come and first[file] < first[caller]:
                found.add(function)
    return found


def walked(walk: str, hops: list[Hop]) -> list[list[Call]]:
    """The calls of a walk up to its last hop, in one list for each hop: the hop, and what follows before the next."""
    calls: list[Call] = []
    run(_into(calls, {**WALKS, **BETWEEN_NODES}[walk]()))
    order = [call.hop for call in calls]
    starts: list[int] = []
    for hop in hops:
        after = starts[-1] + 1 if starts else 0
        assert hop in order[after:], f"{hop} is on the page, but was not called after the hops before it"
        starts.append(order.index(hop, after))
    return [calls[start:end] for start, end in zip(starts, [*starts[1:], starts[-1] + 1], strict=True)]


async def _into(calls: list[Call], walk: Awaitable[list[Call]]) -> None:
    calls += await walk
