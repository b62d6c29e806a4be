"""Sockets pass from one node of a machine to another, each with a key."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cluster.descriptors import Descriptors
from tests.deadlines import DEADLINE_S


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    folder = os.open(tmp_path, os.O_RDONLY)
    yield folder
    os.close(folder)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


def opened(folder: int, life: str, kept_s: float = DEADLINE_S) -> Descriptors:
    descriptors = Descriptors(life, folder, kept_s=kept_s)
    descriptors.open()
    return descriptors


async def test_a_socket_is_there_as_soon_as_it_was_passed(folder: int, pair: Pair) -> None:
    one, two = opened(folder, "one"), opened(folder, "two")

    assert one.pass_on("two", b"k" * 16, pair[0].fileno())

    found = two.take(b"k" * 16)
    assert found is not None
    found.send(b"hello")
    assert pair[1].recv(5) == b"hello"
    assert not os.get_inheritable(found.fileno())
    found.close()
    one.close()
    two.close()


async def test_many_keep_their_keys_in_any_order(folder: int) -> None:
    one, two = opened(folder, "one"), opened(folder, "two")
    pairs = [socket.socketpair() for _ in range(50)]
    for number, (ours, _) in enumerate(pairs):
        assert one.pass_on("two", b"%16d" % number, ours.fileno())
        await asyncio.sleep(0)

    for number in reversed(range(50)):
        with two.take(b"%16d" % number) as found:  # type: ignore[union-attr]  # it is there
            found.send(b"%d" % number)

    for number, (ours, theirs) in enumerate(pairs):
        assert theirs.recv(9) == b"%d" % number
        ours.close()
        theirs.close()
    one.close()
    two.close()


async def test_a_socket_that_nobody_asks_for_is_closed(folder: int, pair: Pair) -> None:
    one, two = opened(folder, "one"), opened(folder, "two", kept_s=0.01)
    one.pass_on("two", b"k" * 16, pair[0].fileno())
    pair[0].close()

    # Readable once no copy is left.
    pair[1].setblocking(False)
    async with asyncio.timeout(DEADLINE_S):
        assert await asyncio.get_running_loop().sock_recv(pair[1], 1) == b""

    assert two.take(b"k" * 16) is None
    one.close()
    two.close()


async def test_a_node_that_is_not_there_or_gone_takes_nothing(folder: int, pair: Pair) -> None:
    one = opened(folder, "one")
    assert not one.knows("two")
    assert not one.pass_on("two", b"k" * 16, pair[0].fileno())
    two = opened(folder, "two")
    assert one.knows("two")
    assert one.pass_on("two", b"1" * 16, pair[0].fileno())
    two.take(b"1" * 16).close()  # type: ignore[union-attr]  # it is there
    two.close()

    assert not one.pass_on("two", b"2" * 16, pair[0].fileno())
    again = opened(folder, "two")
    assert one.pass_on("two", b"3" * 16, pair[0].fileno())
    again.close()
    one.close()


async def test_a_node_that_does_not_read_is_passed_a_few_and_no_more(folder: int, pair: Pair) -> None:
    one = opened(folder, "one")
    deaf = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    deaf.bind(f"/proc/self/fd/{folder}/deaf.fd")
    deaf.listen(1)

    passed = [one.pass_on("deaf", b"%16d" % number, pair[0].fileno()) for number in range(5000)]

    assert passed[0]
    assert not passed[-1]
    deaf.close()
    one.close()
