"""A relayed client's connection is passed to the node of its session, and the client notices nothing."""

import asyncio
import zlib
from random import Random

import pytest

from holdfast.testing.transport_checks import TEXT, LinkRecorder
from holdfast.transports.deflate import deflated
from holdfast.transports.port import NORMAL
from tests.cluster.passing.machine import Machine, speak_until_passed
from tests.transports.raw import BINARY, websocket_frame


async def test_a_relayed_client_is_passed_to_its_node(machine: Machine) -> None:
    client, far = await machine.client()

    said = await speak_until_passed(client, far)
    far.link.send(b"moved")
    client.link.send(b"again")

    assert far.kinds == ["relay", "websocket"]
    assert await far.payload(len(said) + 1) == [*said, b"again"]
    assert await client.payload() == [b"moved"]
    assert (await machine.doors[0].loss())[0] == 4007
    assert client.end is None
    far.link.close(NORMAL, "bye")
    assert await client.loss() == (NORMAL, "bye")


async def test_its_address_goes_with_it_and_text_stays_text(machine: Machine) -> None:
    client, far = await machine.client(TEXT)
    peer = far.link.peer

    await speak_until_passed(client, far)
    far.link.send(b"welcome")

    assert far.link.peer == peer == machine.doors[0].link.peer
    assert far.link.subprotocol == TEXT
    assert await client.payload() == [b"welcome"]


class Sender:
    """Sends numbered payloads of random sizes, some at once, and waits for the loop in between."""

    def __init__(self, random: Random, count: int) -> None:
        self.payloads = [
            number.to_bytes(4, "big") + random.randbytes(random.choice([0, 10, 300, 9_000, 60_000]))
            for number in range(count)
        ]
        self._random = random

    async def run(self, end: LinkRecorder) -> None:
        left = list(self.payloads)
        while left:
            for _ in range(self._random.randrange(1, 6)):
                if left:
                    end.link.send(left.pop(0))
            await asyncio.sleep(0 if self._random.random() < 0.7 else 0.002)


async def test_nothing_is_lost_or_doubled_in_either_direction(machine: Machine) -> None:
    machine.limit(relay_settled_s=0.005)
    for seed in range(20):
        random = Random(seed)
        client, far = await machine.client()
        up, down = Sender(random, 60), Sender(random, 60)

        await asyncio.gather(up.run(client), down.run(far))
        said = await speak_until_passed(client, far)

        assert await far.payload(60 + len(said)) == [*up.payloads, *said], seed
        assert await client.payload(60) == down.payloads, seed
        client.link.close(NORMAL, "")
        assert (await far.loss())[0] == NORMAL
        assert not client.violations


async def test_many_clients_are_passed_at_once(machine: Machine) -> None:
    pairs = [await machine.client() for _ in range(100)]

    await asyncio.gather(*(speak_until_passed(client, far) for client, far in pairs))

    for number, (client, far) in enumerate(pairs):
        far.link.send(str(number).encode())
        assert await client.payload() == [str(number).encode()]


@pytest.mark.parametrize("bits", [9, 12, 15])
async def test_a_compressed_link_stays_compressed(machine: Machine, bits: int) -> None:
    peer, far = await machine.raw_client(f"permessage-deflate; server_max_window_bits={bits}", compression=True)
    said = await speak_until_passed(peer, far)
    text = b"the same words again and again " * 50

    far.link.send(text)
    small = deflated(text, 15)
    assert small is not None
    peer.write(websocket_frame(BINARY, small, first_byte=0xC0 | BINARY))

    opcode, body = await peer.read_websocket_frame(is_deflated=True)
    assert (opcode, zlib.decompressobj(-bits).decompress(body + b"\0\0\xff\xff")) == (BINARY, text)
    assert await far.payload(len(said) + 1) == [*said, text]
    assert far.link.is_compressed
    peer.abandon()


async def test_what_it_reads_is_paused_as_it_was_while_relayed(machine: Machine) -> None:
    client, far = await machine.client()
    said = await speak_until_passed(client, far)
    await far.payload(len(said))

    far.link.pause_reading()
    client.link.send(b"later")
    await asyncio.sleep(0.05)
    assert far.payloads == said
    far.link.resume_reading()

    assert await far.payload(len(said) + 1) == [*said, b"later"]
