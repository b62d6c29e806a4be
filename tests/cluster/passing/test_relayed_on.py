"""Where a step does not fit, the client is relayed as before: nothing is lost, and nobody notices."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from holdfast.testing.transport_checks import LinkRecorder
from holdfast.transports.port import NORMAL
from tests.cluster.passing.machine import Machine, open_descriptors, speak_until_passed
from tests.deadlines import DEADLINE_S
from tests.transports.harness import server_context
from tests.transports.raw import BINARY, PING, PONG, fragment, websocket_frame


async def relayed_both_ways(client: LinkRecorder, machine: Machine, turns: int = 20) -> None:
    """The client and its node talk for a while, by the relay alone."""
    far = machine.far[-1]
    for number in range(turns):
        client.link.send(b"up %d" % number)
        far.link.send(b"down %d" % number)
        await asyncio.sleep(0.002)
    assert await far.payload(turns) == [b"up %d" % number for number in range(turns)]
    assert await client.payload(turns) == [b"down %d" % number for number in range(turns)]
    assert far.kinds == ["relay"]


async def test_a_client_with_tls_is_relayed_on(machine: Machine) -> None:
    peer, far = await machine.raw_client(ssl=server_context(), is_encrypted=True)

    for number in range(20):
        peer.write(websocket_frame(BINARY, b"%d" % number))
        await asyncio.sleep(0.002)

    assert await far.payload(20) == [b"%d" % number for number in range(20)]
    assert far.kinds == ["relay"]
    peer.abandon()


async def test_a_client_of_a_node_on_another_machine_is_relayed_on(machine: Machine) -> None:
    machine.descriptors("b").close()
    client, _ = await machine.client()

    await relayed_both_ways(client, machine)


async def test_a_socket_that_cannot_be_sent_is_tried_again_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.limit(relay_settled_s=0.001)
    descriptors, keys = machine.descriptors("a"), list[bytes]()
    pass_on = descriptors.pass_on

    def offer(life: str, key: bytes, descriptor: int) -> bool:
        keys.append(key)
        return len(keys) > 2 and pass_on(life, key, descriptor)

    monkeypatch.setattr(descriptors, "pass_on", offer)
    client, far = await machine.client()

    said = await speak_until_passed(client, far)

    assert len(keys) == 3
    assert await far.payload(len(said)) == said


async def test_a_socket_that_did_not_arrive_is_tried_again_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.limit(relay_settled_s=0.001)
    descriptors, keys = machine.descriptors("b"), list[bytes]()
    take = descriptors.take

    def find(key: bytes) -> socket.socket | None:
        keys.append(key)
        return take(key) if len(keys) > 2 else None

    monkeypatch.setattr(descriptors, "take", find)
    client, far = await machine.client()

    said = await speak_until_passed(client, far)

    assert len(set(keys)) == 3
    assert await far.payload(len(said)) == said


async def test_a_client_that_sends_incomplete_frames_for_ever_is_relayed_on(machine: Machine) -> None:
    peer, far = await machine.raw_client()
    frames = [websocket_frame(BINARY, b"%d" % number) for number in range(100)]
    stream = b"".join(frames)

    # Each piece ends in the middle of a frame.
    cut = len(frames[0]) // 2
    written = 0
    for number in range(1, 99):
        end = sum(map(len, frames[:number])) + cut
        peer.write(stream[written:end])
        written = end
        await far.payload(number)
    assert far.kinds == ["relay"]
    peer.write(stream[written:])

    await far.payload(100)
    assert far.payloads == [b"%d" % number for number in range(100)]
    peer.abandon()


async def test_a_message_in_fragments_is_not_cut(machine: Machine) -> None:
    peer, far = await machine.raw_client()
    expected = []

    for number in range(50):
        expected.append(b"%d-%d" % (number, number))
        peer.write(fragment(BINARY, b"%d-" % number))
        await asyncio.sleep(0.001)
        peer.write(fragment(0, b"%d" % number, is_last=True))
        await far.payload(number + 1)

    assert far.payloads == expected
    assert far.kinds == ["relay", "websocket"]
    peer.abandon()


async def test_each_ping_is_answered_once(machine: Machine) -> None:
    peer, far = await machine.raw_client()

    for number in range(50):
        peer.write(websocket_frame(PING, b"%d" % number))
        assert await peer.read_websocket_frame() == (PONG, b"%d" % number)

    assert far.kinds == ["relay", "websocket"], "a ping is a place to pass it"
    peer.abandon()


def at_offer(machine: Machine, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> list[bytes]:
    """Do something when the first node has passed a socket, for the first time; returns the keys."""
    descriptors, keys = machine.descriptors("a"), list[bytes]()
    pass_on = descriptors.pass_on

    def offer(life: str, key: bytes, descriptor: int) -> bool:
        is_passed = pass_on(life, key, descriptor)
        keys.append(key)
        if len(keys) == 1:
            do()
        return is_passed

    monkeypatch.setattr(descriptors, "pass_on", offer)
    return keys


async def test_a_client_that_stops_reading_gets_everything_and_is_passed_when_it_reads(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.limit(relay_settled_s=0.01, relay_passing_s=0.05)
    client, far = await machine.client()
    big = [bytes([number]) * 60_000 for number in range(200)]

    def flood() -> None:
        client.link.pause_reading()
        for payload in big:
            far.link.send(payload)
        # By now its node waits for the connection, which it will not get.
        asyncio.get_running_loop().call_later(0.02, far.link.send, b"held")

    keys = at_offer(machine, monkeypatch, flood)
    said: list[bytes] = []
    while len(keys) < 1 or far.link.buffered_bytes < 1_000_000:
        said.append(b"%d" % len(said))
        client.link.send(said[-1])
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.1)
    client.link.send(b"still heard")
    await far.payload(len(said) + 1)
    assert far.kinds == ["relay"]
    client.link.resume_reading()
    more = await speak_until_passed(client, far)
    far.link.send(b"last")

    assert await client.payload(202) == [*big, b"held", b"last"]
    assert await far.payload(len(said) + 1 + len(more)) == [*said, b"still heard", *more]
    assert len(keys) > 1


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_a_client_that_goes_while_it_is_passed_is_gone_for_its_node(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for _ in range(5):
        client, far = await machine.client()
        at_offer(
            machine,
            monkeypatch,
            lambda client=client: client.link.close(NORMAL, "enough") if way == "close" else client.link.abort(),  # type: ignore[misc]  # bound now
        )

        for _ in range(20):
            client.link.send(b".")
            await asyncio.sleep(0.001)

        assert await far.loss() == ((NORMAL, "enough") if way == "close" else (1006, ""))
        monkeypatch.undo()


@pytest.mark.parametrize("way", ["close", "abort"])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8])
async def test_a_node_that_closes_the_link_while_it_takes_it_says_so_to_the_client(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, way: str, after: int
) -> None:
    client, far = await machine.client()
    descriptors = machine.descriptors("b")
    take = descriptors.take

    def end(turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(end, turns - 1)
        elif way == "close":
            far.link.send(b"last words")
            far.link.close(4321, "kicked")
        else:
            far.link.abort()

    def find(key: bytes) -> socket.socket | None:
        end(after)
        return take(key)

    monkeypatch.setattr(descriptors, "take", find)
    for _ in range(20):
        client.link.send(b".")
        await asyncio.sleep(0.001)

    code, _ = await client.loss()
    if way == "close":
        assert code == 4321
        assert client.payloads == [b"last words"]
        assert await far.loss() == (4321, "kicked")
    else:
        assert code in {1006, 4000}
        await far.loss()


async def test_passing_leaks_no_descriptor(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set[str]()
    for number in range(33):
        client, far = await machine.client()
        if number % 3 == 1:
            at_offer(machine, monkeypatch, client.link.abort)
        if number % 3 == 2:
            at_offer(machine, monkeypatch, far.link.abort)
        for _ in range(10):
            client.link.send(b".")
            await asyncio.sleep(0.001)
        client.link.abort()
        await far.loss()
        await machine.doors[-1].loss()
        await machine.close_listeners()
        monkeypatch.undo()
        if number == 2:
            # The nodes are linked.
            before = open_descriptors()

    async with asyncio.timeout(DEADLINE_S):
        while len(open_descriptors()) > len(before):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
