"""Nodes of two versions ask each other: what one does not know does not break the other."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from holdfast import NotFound
from holdfast.cluster.port import NoReply
from holdfast.cluster.questions import Questions
from holdfast.cluster.watch import MemberWatch
from holdfast.core.limits import Limits
from holdfast.schemas.beat import Beat
from holdfast.schemas.cluster import MoveRooms, Present, SessionHandover, Whereabouts
from holdfast.schemas.relay import LinkOpening
from holdfast.testing import run
from holdfast.testing.bus import BusNetwork, MemoryBus


class Newer(Struct, frozen=True, array_like=True):
    """A question of a version that is yet to come: `Whereabouts` with one field more."""

    sessions: list[str]
    rooms: list[str]
    codes: list[str]
    planets: list[str]


class Older(Struct, frozen=True, array_like=True):
    """An answer of the first version of clusters: `Present` without its last field."""

    sessions: list[str]
    rooms: list[str]
    codes: dict[str, str]


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def wrapped() -> None:
        run(test())

    return wrapped


async def two_nodes() -> tuple[Questions, Questions]:
    network, limits = BusNetwork(), Limits()
    made = []
    for life in ("a", "b"):
        bus = MemoryBus(network)
        await bus.open()
        questions = Questions(bus, MemberWatch(bus, life, limits), life, limits)
        await questions.start()
        made.append(questions)
    return made[0], made[1]


@in_virtual_time
async def test_a_field_that_the_other_node_does_not_know_is_passed_over() -> None:
    a, b = await two_nodes()
    b.answer("where", Whereabouts, lambda asked: Present(asked.sessions))

    answer = await a.ask("b", "where", Newer(["s"], [], [], ["mars"]), Present)

    assert answer == Present(["s"])


@in_virtual_time
async def test_a_field_that_the_other_node_does_not_send_has_its_default() -> None:
    a, b = await two_nodes()
    b.answer("where", Whereabouts, lambda asked: Older(asked.sessions, [], {}))

    assert await a.ask("b", "where", Whereabouts(["s"]), Present) == Present(["s"], [], {}, [])


@in_virtual_time
async def test_a_question_that_the_other_node_does_not_know_has_no_answer() -> None:
    a, _ = await two_nodes()

    with pytest.raises(NoReply, match="another version"):
        await a.ask("b", "what_is_love", True, bool)


@in_virtual_time
async def test_a_refusal_of_the_other_node_is_raised_as_there() -> None:
    a, b = await two_nodes()

    async def refuse(_: bool) -> Any:
        await asyncio.sleep(0)
        raise NotFound("there is no such room")

    b.answer("move", bool, refuse)

    with pytest.raises(NotFound, match="no such room"):
        await a.ask("b", "move", True, bool)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (Present, (["s"], [], {})),
        (MoveRooms, ("1", ["r"], [])),
        (SessionHandover, ("s", b"", 0, {}, [])),
        (LinkOpening, (1, 1, "203.0.113.7:1", True, False, ["holdfast.v1.json"])),
    ],
)
def test_what_the_first_version_has_said_is_still_understood(kind: type[Any], first: tuple[Any, ...]) -> None:
    assert isinstance(msgspec.msgpack.decode(msgspec.msgpack.encode(first), type=kind), kind)


def test_a_beat_of_the_first_version_is_still_heard_and_one_of_a_later_one() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({"life": "a", "number": 1}), type=Beat).life == "a"
    later = {"life": "a", "number": 1, "mood": "fine"}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(later), type=Beat).number == 1
