"""Relayed links: transports like any other, whose ends are on two nodes; see `holdfast.cluster.relay`."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import msgspec
import pytest

from holdfast.cluster import Bus, MemberChange, MemberState, NatsBus
from holdfast.cluster.relay import Caller, ClientRelay, RelayedLink, splice
from holdfast.core.limits import KIB, Limits
from holdfast.schemas.relay import LinkPart, LinkReset, RelayMessage
from holdfast.testing.bus import BusNetwork, MemoryBus
from holdfast.testing.transport_checks import BINARY, CHECKS, LIMITS, Ends, LinkRecorder
from holdfast.transports.memory import MemoryNetwork
from holdfast.transports.port import (
    NORMAL,
    VANISHED,
    Accept,
    DialError,
    Listener,
    Receiver,
    Subprotocol,
    Transport,
    TransportLimits,
)
from tests.deadlines import DEADLINE_S
from tests.nats_server import shared_server

QUICK = Limits(relay_beat_s=0.02, relay_silent_s=0.1, relay_ack_s=0.002)
CALLER = Caller(address="203.0.113.7:51234", is_encrypted=True)


class Nodes:
    """Nodes of one cluster: the first one dials, each listener has another one."""

    def __init__(self, make: Callable[[], Bus], limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        self._make = make
        self._limits = limits
        self.relays: list[ClientRelay] = []
        self.buses: list[Bus] = []
        self._listeners: list[Listener | None] = []

    async def _node(self) -> int:
        bus = self._make()
        await bus.open()
        relay = ClientRelay(bus, f"n{len(self.relays)}", self._limits)
        await relay.start()
        self.buses.append(bus)
        self.relays.append(relay)
        self._listeners.append(None)
        return len(self.relays) - 1

    async def listen(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> Listener:
        if not self.relays:
            await self._node()
        free = [number for number, each in enumerate(self._listeners) if number and not getattr(each, "is_open", False)]
        number = free[0] if free else await self._node()
        listener = self.relays[number].listen(accept, subprotocols=subprotocols, limits=limits)
        self._listeners[number] = listener
        return listener

    async def dial(
        self, receiver: Receiver, listener: Listener, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> Transport:
        life = listener.addresses[0][0]
        return await self.relays[0].dial(receiver, life, caller=CALLER, subprotocols=subprotocols, limits=limits)

    async def close(self) -> None:
        for relay, bus in zip(self.relays, self.buses, strict=True):
            await relay.stop()
            await bus.close()


@pytest.mark.parametrize("kind", ["memory", "nats"])
async def test_a_relayed_link_keeps_the_promises_of_every_transport(kind: str) -> None:
    name = secrets.token_hex(8)
    make: Callable[[], Bus] = (
        partial(NatsBus, f"{shared_server().url}/{name}") if kind == "nats" else partial(MemoryBus, BusNetwork())
    )
    nodes = Nodes(make)

    for check in CHECKS:
        ends = Ends(nodes)
        try:
            await check(ends)
            await ends.finish()
        except BaseException as error:
            error.add_note(f"the check: {check.__name__}")
            raise
    await nodes.close()


# What is particular to them


@pytest.fixture
async def network() -> BusNetwork:
    return BusNetwork()


@pytest.fixture
async def nodes(network: BusNetwork) -> AsyncIterator[Nodes]:
    nodes = Nodes(partial(MemoryBus, network), QUICK)
    yield nodes
    await nodes.close()


@pytest.fixture
async def ends(nodes: Nodes) -> Ends:
    return Ends(nodes)


def bus_of(nodes: Nodes, number: int) -> MemoryBus:
    bus = nodes.buses[number]
    assert isinstance(bus, MemoryBus)
    return bus


async def test_the_far_end_has_the_clients_address_and_knows_how_the_client_came(ends: Ends) -> None:
    dialed, accepted = await ends.pair()

    assert (accepted.link.peer, accepted.link.is_encrypted) == ("203.0.113.7:51234", True)
    assert dialed.link.peer == "n1"
    await ends.finish()


async def test_a_node_that_is_gone_cannot_be_dialed_and_one_that_hangs_is_not_waited_for(
    ends: Ends, nodes: Nodes
) -> None:
    listener = await ends.listen()
    bus_of(nodes, 1).is_deaf = True
    with pytest.raises(DialError, match="does not answer"):
        await ends.dial(listener, limits=replace(LIMITS, handshake_s=0.02))

    await nodes.buses[1].close()

    with pytest.raises(DialError, match="is gone"):
        await ends.dial(listener)


async def test_links_end_as_soon_as_membership_says_that_their_node_is_dead(ends: Ends, nodes: Nodes) -> None:
    dialed, _ = await ends.pair()

    for state in (MemberState.SUSPECT, MemberState.DEAD):
        assert dialed.link.is_up
        nodes.relays[0].node_changed(MemberChange("n1", None, state, "no beat"))

    assert await dialed.loss() == (VANISHED, "")


async def test_a_node_that_falls_silent_ends_its_links_at_both_ends(
    ends: Ends, nodes: Nodes, network: BusNetwork
) -> None:
    dialed, accepted = await ends.pair()
    await asyncio.sleep(QUICK.relay_silent_s * 1.5)
    assert dialed.link.is_up
    assert accepted.link.is_up

    network.cut(bus_of(nodes, 1))

    assert await dialed.loss() == await accepted.loss() == (VANISHED, "")
    await ends.finish()


async def test_what_a_bus_has_lost_is_never_silently_missing(ends: Ends, nodes: Nodes, network: BusNetwork) -> None:
    listener = await ends.listen()
    for loser in (0, 1):
        dialed = await dial_again(ends, listener)
        accepted = await ends.accept(len(ends.accepted))
        speaker = (dialed, accepted)[loser]

        network.cut(bus_of(nodes, loser))
        speaker.link.send(b"lost")
        await asyncio.sleep(0.005)
        network.mend(bus_of(nodes, loser))
        speaker.link.send(b"after it")

        assert await dialed.loss() == await accepted.loss() == (VANISHED, "")
        assert (dialed.payloads, accepted.payloads) == ([], [])
    dialed = await dial_again(ends, listener)
    dialed.link.send(b"anew")
    assert await (await ends.accept(len(ends.accepted))).payload() == [b"anew"]
    await ends.finish()


async def dial_again(ends: Ends, listener: Listener) -> LinkRecorder:
    """A dial that is on its way when the other direction turns out to be broken too fails, and is worth another try."""
    while True:
        with suppress(DialError):
            return await ends.dial(listener)


async def test_a_bus_that_was_away_and_lost_nothing_ends_no_link(ends: Ends, nodes: Nodes, network: BusNetwork) -> None:
    dialed, accepted = await ends.pair()
    await asyncio.sleep(0.01)

    network.cut(bus_of(nodes, 0))
    network.mend(bus_of(nodes, 0))
    dialed.link.send(b"still here")

    assert await accepted.payload() == [b"still here"]
    await ends.finish()


async def test_a_client_that_does_not_read_holds_up_no_other_and_costs_one_window(ends: Ends, nodes: Nodes) -> None:
    listener = await ends.listen()
    slow, quick = await ends.dial(listener), await ends.dial(listener)
    far_slow, far_quick = await ends.accept(1), await ends.accept(2)
    far_slow.link.pause_reading()
    came: list[int] = []
    await nodes.buses[1].listen("relay.n1", lambda _, payload: came.append(len(payload)))

    for _ in range(100):
        slow.link.send(bytes(50 * KIB))
    for number in range(100):
        quick.link.send(b"%d" % number)

    assert await far_quick.payload(100) == [b"%d" % number for number in range(100)]
    assert sum(came) < QUICK.relay_unread_bytes_max + 20 * KIB
    assert slow.link.buffered_bytes > 4_000 * KIB
    assert quick.congested_count == 0
    far_slow.link.resume_reading()
    await far_slow.payload(100)
    await ends.finish()


async def test_what_is_on_its_way_to_a_node_that_takes_nothing_is_bounded(network: BusNetwork) -> None:
    nodes = Nodes(partial(MemoryBus, network), replace(QUICK, relay_line_bytes_max=100 * KIB))
    ends = Ends(nodes)
    listener = await ends.listen()
    dialed = [await ends.dial(listener) for _ in range(10)]
    await ends.accept(10)
    told: list[int] = []
    witness = MemoryBus(network)
    await witness.open()
    await witness.listen("relay.n1", lambda _, payload: told.append(len(payload)))
    network.cut(bus_of(nodes, 1))

    for recorder in dialed:
        recorder.link.send(bytes(100_000))
    await asyncio.sleep(0.02)

    assert 100 * KIB <= sum(told) < 150 * KIB
    await nodes.close()


async def test_what_one_turn_says_on_many_links_is_one_message(ends: Ends, nodes: Nodes) -> None:
    listener = await ends.listen()
    dialed = [await ends.dial(listener) for _ in range(20)]
    accepted = [await ends.accept(number) for number in range(1, 21)]
    said: list[int] = []
    await nodes.buses[0].listen("relay.n1", lambda _, payload: said.append(len(decode(payload).frames)))

    for recorder in dialed:
        recorder.link.send(b"one of many")
    for recorder in accepted:
        await recorder.payload()

    assert 20 in said
    await ends.finish()


async def test_links_take_turns(ends: Ends, nodes: Nodes) -> None:
    listener = await ends.listen()
    large, small = await ends.dial(listener), await ends.dial(listener)
    said: list[set[int]] = []
    await nodes.buses[0].listen("relay.n1", lambda _, payload: said.append(set(links_in(payload))))

    large.link.send(bytes(90 * KIB))
    small.link.send(b"one word")
    await (await ends.accept(2)).payload()

    assert {1, 2} in said[:1]
    await ends.finish()


def links_in(payload: bytes) -> list[int]:
    return [frame.link for frame in decode(payload).frames]


def decode(payload: bytes) -> RelayMessage:
    return msgspec.msgpack.decode(payload, type=RelayMessage)


async def test_nonsense_on_the_bus_harms_nobody(ends: Ends, nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    dialed, accepted = await ends.pair()
    replies: list[bytes] = []
    await nodes.buses[0].listen("relay.stranger", lambda _, payload: replies.append(payload))

    for payload in (b"", b"\xc1", msgspec.msgpack.encode(["n0", 1, "", 7, 0, 0]), msgspec.msgpack.encode({"a": 1})):
        await nodes.buses[0].tell("relay.n1", payload)
    stranger = RelayMessage("stranger", 1, 1, 0, 0, 0, (LinkPart(5, b"of no link", is_last=True),))
    await nodes.buses[0].tell("relay.n1", msgspec.msgpack.encode(stranger))
    dialed.link.send(b"unharmed")

    assert await accepted.payload() == [b"unharmed"]
    async with asyncio.timeout(DEADLINE_S):
        while not replies:  # noqa: ASYNC110 - a deadline, not a time
            await asyncio.sleep(0.001)
    assert decode(replies[0]).frames == (LinkReset(-5),)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 4
    await ends.finish()


# A client's link and a relayed one


async def spliced(ends: Ends, nodes: Nodes) -> tuple[LinkRecorder, LinkRecorder]:
    """A client of the first node, and what the second node has of it."""
    listener = await ends.listen()
    entrance, client = LinkRecorder(), LinkRecorder()
    memory = MemoryNetwork()
    near = Switch(entrance)
    await memory.listen(lambda: near, "here", subprotocols=[BINARY], limits=LIMITS)
    await memory.dial(client, "here", subprotocols=[BINARY], limits=LIMITS)
    client.link.send(b"hello")
    await entrance.payload()
    entrance.link.pause_reading()
    client.link.send(b"at once")
    life = listener.addresses[0][0]
    near.receiver = await splice(
        lambda: entrance.link, nodes.relays[0], life, heard=lambda: entrance.payloads, limits=LIMITS
    )
    entrance.link.resume_reading()
    ends.dialed.append(client)
    return client, await ends.accept()


class Switch:
    """A receiver that can be replaced."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def opened(self, transport: Transport) -> None:
        self.receiver.opened(transport)

    def received(self, payload: bytes) -> None:
        self.receiver.received(payload)

    def received_datagram(self, payload: bytes) -> None:
        self.receiver.received_datagram(payload)

    def kept_busy(self) -> None:
        self.receiver.kept_busy()

    def congested(self) -> None:
        self.receiver.congested()

    def drained(self) -> None:
        self.receiver.drained()

    def lost(self, code: int, reason: str) -> None:
        self.receiver.lost(code, reason)


async def test_a_client_speaks_through_one_node_to_another(ends: Ends, nodes: Nodes) -> None:
    client, far = await spliced(ends, nodes)

    far.link.send(b"welcome")
    client.link.send(b"move")

    assert await client.payload() == [b"welcome"]
    assert await far.payload(3) == [b"hello", b"at once", b"move"]
    assert far.link.peer == "memory:1"
    far.link.close(NORMAL, "bye")
    assert await client.loss() == (NORMAL, "bye")
    await ends.finish()


async def test_a_client_that_vanishes_has_vanished_at_the_far_end_too(ends: Ends, nodes: Nodes) -> None:
    client, far = await spliced(ends, nodes)

    client.link.abort()

    assert await far.loss() == (VANISHED, "")
    await ends.finish()


async def test_a_client_that_goes_while_it_is_being_joined_leaves_nothing_behind(ends: Ends, nodes: Nodes) -> None:
    listener = await ends.listen()
    entrance, client = LinkRecorder(), LinkRecorder()
    memory = MemoryNetwork()
    await memory.listen(lambda: entrance, "here", subprotocols=[BINARY], limits=LIMITS)
    await memory.dial(client, "here", subprotocols=[BINARY], limits=LIMITS)
    await entrance.opening()
    life = listener.addresses[0][0]

    joining = asyncio.create_task(splice(lambda: entrance.link, nodes.relays[0], life, heard=tuple, limits=LIMITS))
    await asyncio.sleep(0)
    client.link.abort()
    await entrance.loss()
    with pytest.raises(DialError, match="has gone"):
        await joining

    assert await (await ends.accept()).loss() == (VANISHED, "")


async def test_a_client_whose_far_node_dies_is_told_to_resume(ends: Ends, nodes: Nodes) -> None:
    client, _ = await spliced(ends, nodes)

    nodes.relays[0].node_changed(MemberChange("n1", None, MemberState.DEAD, "no beat"))

    assert (await client.loss())[0] == 4000
    await ends.finish()


async def test_a_client_that_does_not_read_stops_the_far_end_and_gets_everything_later(
    ends: Ends, nodes: Nodes
) -> None:
    client, far = await spliced(ends, nodes)
    client.link.pause_reading()

    sent = [bytes([number]) * 50_000 for number in range(100)]
    for payload in sent:
        far.link.send(payload)
    await far.until(lambda: far.congested_count == 1)
    await asyncio.sleep(0.02)
    waiting = far.link.buffered_bytes
    client.link.resume_reading()

    assert await client.payload(100) == sent
    assert waiting > 4_000_000
    assert isinstance(far.link, RelayedLink)
    await ends.finish()
