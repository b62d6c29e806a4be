"""One ENet connection over bad networks, in virtual time: what is reliable arrives once, in order, and in time."""

from dataclasses import replace

import pytest

from holdfast.core.tables import IllegalTransition
from holdfast.transports.enet import wire
from holdfast.transports.enet.inbound import BrokenFragments, Inbound, TooBig
from holdfast.transports.enet.outbound import Outbound
from holdfast.transports.enet.pace import THROTTLE_MAX
from holdfast.transports.enet.peer import LATEST, PEER_TABLE, Peer, PeerState, PeerStep
from holdfast.transports.port import BROKEN, NO_STATUS, TOO_BIG, VANISHED
from tests.cases import every_case
from tests.transports.enet.world import LIMITS, Weather, World, small

WEATHERS = [
    Weather(),
    Weather(loss=0.05, delay_s=(0.04, 0.06)),
    Weather(loss=0.3, duplication=0.3, delay_s=(0.0, 0.3)),
    Weather(duplication=1.0, delay_s=(0.01, 0.2)),
]
SIZES = (0, 1, 20, 548, 549, 1_187, 1_188, 1_190, 5_000, 20_000)


@every_case("seed", range(24))
def test_payloads_arrive_once_and_in_order_whatever_the_network_does(seed: int) -> None:
    mtu = (576, 1_000, 1_200)[seed % 3]
    world = World(seed, WEATHERS[seed % len(WEATHERS)], limits=small(mtu)).connect()
    assert world.server is not None
    sent = [bytes([seed]) * world.random.choice(SIZES) for _ in range(25)]

    for payload in sent:
        world.client.send(payload)
        world.server.send(payload)
    world.run(lambda: all(peer.waiting_bytes == 0 for peer in world.ends().values()) and len(got(world)) == 2 * 25)
    # Of a client that hears nothing for long, the server's own keepalive finds the end.
    world.weather = replace(world.weather, loss=min(world.weather.loss, 0.05))
    world.client.close(4200, "bye")
    world.run(lambda: all(peer.state is PeerState.ENDED for peer in world.ends().values()))

    assert world.received == {"client": sent, "server": sent}
    assert world.client.end == (4200, "bye")
    assert world.server.end == (4200, "bye")


def got(world: World) -> list[bytes]:
    return world.received["client"] + world.received["server"]


@every_case("seed", range(20))
def test_the_newest_values_arrive_in_order_and_old_ones_never(seed: int) -> None:
    world = World(seed, Weather(loss=0.2, duplication=0.2, delay_s=(0.0, 0.2))).connect()
    numbers = range(200)

    for number in numbers:
        assert world.client.send_datagram(b"%d" % number)
        until = world.now + 0.03
        world.client.send(b"")
        world.run(lambda until=until: world.now >= until)  # type: ignore[misc]  # a lambda for now

    arrived = [int(datagram) for datagram in world.datagrams["server"]]
    assert arrived == sorted(set(arrived))
    assert len(arrived) > 40


def test_a_datagram_does_not_wait_for_a_lost_payload() -> None:
    world = World().connect()
    world.weather = Weather(loss=1.0)
    world.client.send(b"lost")
    until = world.now + 0.01
    world.run(lambda: world.now >= until or world.packets > 4)
    world.weather = Weather()

    assert world.client.send_datagram(b"newest")
    world.run(lambda: world.datagrams["server"] == [b"newest"])

    assert world.received["server"] == []
    world.run(lambda: world.received["server"] == [b"lost"])


def test_datagrams_that_are_sent_twice_arrive_once_and_hardly_one_is_lost() -> None:
    world = World(3, Weather(loss=0.1), limits=replace(LIMITS, udp_repeat_s=0.02)).connect()

    for number in range(400):
        assert world.client.send_datagram(b"%d" % number)
        until = world.now + 0.05
        world.run(lambda until=until: world.now >= until)  # type: ignore[misc]  # a lambda for now
    received = [int(each) for each in world.datagrams["server"]]

    assert received == sorted(set(received))
    assert len(received) >= 385
    world.client.abort()
    assert world.client.wake_at is None


def test_a_datagram_that_is_too_large_goes_another_way() -> None:
    world = World(limits=small(576)).connect()
    size = world.client.datagram_bytes_max

    assert size == 576 - wire.HEAD_BYTES - wire.UNRELIABLE_BYTES
    assert world.client.send_datagram(bytes(size))
    assert not world.client.send_datagram(bytes(size + 1))
    world.client.close(4200, "")
    assert not world.client.send_datagram(b"")


def test_the_numbers_of_datagrams_start_again_as_in_enet() -> None:
    # ENet sends every 65,536th unreliable packet reliably, because a receiver takes a number that is not higher for
    # an old one.
    world = World().connect()
    count = 65_600

    for start in range(0, count, 200):
        for number in range(start, start + 200):
            world.client.send_datagram(b"%d" % number)
        world.run(lambda last=start + 199: world.datagrams["server"][-1:] == [b"%d" % last])  # type: ignore[misc]

    arrived = [int(datagram) for datagram in world.datagrams["server"]]
    assert arrived == sorted(set(arrived))
    assert len(arrived) > 0.99 * count


def test_a_peer_that_falls_silent_is_lost_after_the_timeout_and_not_before() -> None:
    world = World().connect()
    world.weather = Weather(loss=1.0)
    world.client.send(b"anybody?")
    asked_at = world.now

    world.run(lambda: world.client.state is PeerState.ENDED)

    assert world.client.end == (VANISHED, "")
    assert LIMITS.udp_timeout_s <= world.now - asked_at < LIMITS.udp_timeout_s + 1.5
    assert world.client.waiting_bytes == 0


def test_an_idle_client_pings_and_so_notices_that_its_address_has_changed() -> None:
    world = World().connect()
    idle_until = world.now + 20
    before = world.packets
    world.run(lambda: world.now >= idle_until)
    assert 30 <= world.packets - before <= 45  # a ping and its answer in each second
    assert world.client.state is PeerState.CONNECTED

    world.weather = Weather(loss=1.0)
    changed_at = world.now
    world.run(lambda: world.client.state is PeerState.ENDED)

    assert world.now - changed_at < LIMITS.udp_ping_s + LIMITS.udp_timeout_s + 1.5


def test_a_lost_packet_is_sent_again_after_a_round_trip_and_some() -> None:
    world = World().connect()
    for _ in range(20):
        world.client.send(b"x")
        world.run(lambda: world.client.waiting_bytes == 0)
    world.weather = Weather(loss=1.0)
    world.client.send(b"lost once")
    sent_at, sent = world.now, world.packets
    world.run(lambda: world.packets == sent + 1)
    world.weather = Weather()

    world.run(lambda: world.received["server"][-1:] == [b"lost once"])

    # 100 ms there and back; TCP's shortest wait is 200 ms.
    assert 0.15 <= world.now - sent_at <= 0.35


def test_no_more_than_the_window_is_in_flight() -> None:
    world = World(limits=replace(LIMITS, unacked_bytes_max=8_192)).connect()
    before = world.packets

    world.client.send(bytes(60_000))
    until = world.now + 0.02
    world.run(lambda: world.now >= until or world.packets - before > 6)

    assert world.packets - before <= 8
    assert world.client.waiting_bytes == 60_000
    world.run(lambda: world.received["server"] == [bytes(60_000)])


def test_a_path_that_gets_slower_is_sent_less() -> None:
    world = World().connect()
    for step in range(60):
        world.weather = Weather(delay_s=(0.05 + step / 100, 0.05 + step / 100))
        world.client.send(b"x")
        world.run(lambda: world.client.waiting_bytes == 0)

    before = world.packets
    for _ in range(THROTTLE_MAX):
        assert world.client.send_datagram(b"newest")
    count = len(world.datagrams["server"])
    until = world.now + 2
    world.run(lambda: world.now >= until)

    assert world.packets > before
    assert 0 < len(world.datagrams["server"]) - count < THROTTLE_MAX


@every_case("frames_first", [True, False])
def test_a_payload_above_the_limit_closes_the_connection(frames_first: bool) -> None:
    world = World().connect()
    assert world.server is not None
    payload = bytes(LIMITS.payload_bytes_max + 1)

    if frames_first:
        world.client.send(b"before")
    world.client.send(payload)
    world.client.send(b"behind")
    world.run(lambda: all(peer.state is PeerState.ENDED for peer in world.ends().values()))

    assert world.server.end is not None
    assert world.client.end is not None
    assert world.server.end[0] == world.client.end[0] == TOO_BIG
    assert world.received["server"] == [b"before"] * frames_first


def test_a_peer_that_is_not_read_does_not_acknowledge_more_than_the_limit() -> None:
    world = World(limits=replace(LIMITS, unread_bytes_max=10_000)).connect()
    assert world.server is not None
    world.server.unread_bytes = 10_001

    world.client.send(b"later")
    until = world.now + 30
    world.run(lambda: world.now >= until, within_s=31)

    assert world.received["server"] == []
    assert world.client.state is PeerState.CONNECTED, "a peer that answers pings is alive"
    world.server.unread_bytes = 0
    world.run(lambda: world.received["server"] == [b"later"], within_s=2)


# What a peer may not do


def fragment(
    seq: int,
    index: int,
    *,
    start_seq: int = 1,
    count: int = 3,
    total: int = 6,
    offset: int | None = None,
    data: bytes = b"ab",
) -> wire.Fragment:
    return wire.Fragment(0, seq, True, start_seq, count, index, total, 2 * index if offset is None else offset, data)


def test_fragments_in_any_order_make_one_packet() -> None:
    inbound = Inbound(100)
    packets: list[bytes] = []

    for seq in (3, 1, 3, 2, 1):
        assert inbound.accept(fragment(seq, seq - 1), packets, 1_000)

    assert packets == [b"ababab"]
    assert inbound.early_bytes == 0
    assert inbound.accepted_count == 3


@every_case(
    "commands",
    [
        [fragment(1, 1)],
        [fragment(1, 0, count=0)],
        [fragment(1, 0, data=b"")],
        [fragment(1, 0), wire.Reliable(0, 2, True, b"")],
        [fragment(1, 0), fragment(2, 1, offset=4)],
        [fragment(1, 0), fragment(2, 1, total=7)],
        [fragment(1, 0), fragment(2, 2)],
        [fragment(1, 0, count=1)],
        [fragment(1, 0, total=1)],
    ],
)
def test_fragments_that_do_not_fit_together_are_refused(commands: list[wire.Fragment]) -> None:
    inbound = Inbound(100)

    for command in commands[:-1]:
        inbound.accept(command, [], 1_000)
    with pytest.raises(BrokenFragments):
        inbound.accept(commands[-1], [], 1_000)


def test_what_comes_early_is_bounded_and_the_next_one_is_always_taken() -> None:
    inbound = Inbound(100)
    packets: list[bytes] = []

    taken = [inbound.accept(wire.Reliable(0, seq, True, bytes(100)), packets, 1_000) for seq in range(2, 20)]
    assert sum(taken) == 1_000 // (100 + 128)
    assert not inbound.accept(wire.Reliable(0, 30_000, True, b""), packets, 1_000)
    assert inbound.accept(wire.Reliable(0, 1, True, b"first"), packets, 0)

    assert len(packets) == 1 + sum(taken)
    assert inbound.accept(wire.Reliable(0, 1, True, b"first"), packets, 0), "known: it is acknowledged again"
    with pytest.raises(TooBig):
        inbound.accept(wire.Reliable(0, inbound.next_seq, True, bytes(101)), packets, 1_000)


def test_broken_fragments_close_the_connection() -> None:
    world = World().connect()
    assert world.server is not None

    world.server.receive(wire.Datagram(0, world.server.session, 1, [fragment(2, 1)]), world.now)
    world.run(lambda: world.client.state is PeerState.ENDED)

    assert world.client.end is not None
    assert world.client.end[0] == BROKEN


@every_case("command, end", [
    (wire.Disconnect(255, 9, True, 0), (NO_STATUS, "")),
    (wire.Disconnect(255, 9, True, 4012), (4012, "")),
    (wire.Disconnect(255, 9, True, 7), (BROKEN, "")),
    (wire.DisconnectNow(255, 9, False, 0), (VANISHED, "")),
    (wire.DisconnectNow(255, 9, False, 4012), (4012, "")),
])  # fmt: skip
def test_the_number_of_a_disconnect_is_the_close_code(command: wire.Command, end: tuple[int, str]) -> None:
    world = World().connect()
    assert world.server is not None

    world.server.receive(wire.Datagram(0, world.server.session, 1, [command]), world.now)

    assert world.server.end == end
    assert len(world.server.write(world.now)) == isinstance(command, wire.Disconnect) - isinstance(
        command, wire.DisconnectNow
    )


def test_datagrams_of_another_session_are_ignored() -> None:
    world = World().connect()
    assert world.server is not None

    other = wire.Datagram(0, world.server.session ^ 1, 1, [wire.DisconnectNow(255, 9, False, 0)])

    assert world.server.receive(other, world.now) == 1
    assert world.server.state is PeerState.CONNECTED


def test_commands_that_bring_nothing_are_counted_each() -> None:
    world = World().connect()
    assert world.server is not None
    server, session = world.server, world.server.session

    def idle(*commands: wire.Command) -> int:
        return server.receive(wire.Datagram(0, session, 1, [*commands]), world.now)

    assert idle(wire.Reliable(0, 2, True, b"new")) == 0
    assert idle(wire.Reliable(0, 2, True, b"new")) == 1
    assert idle(*[wire.PeerPing(255, 5, True)] * 3) == 3
    assert idle(wire.Acknowledge(0, 1, False, 99, 1)) == 1
    assert idle(wire.Unsequenced(LATEST, 0, False, 1, b"may overtake")) == 1
    assert idle(wire.Unreliable(0, 0, False, 1, b"on the wrong channel")) == 1
    newest = wire.Unreliable(LATEST, 0, False, 1, b"newest")
    assert idle(newest, newest) == 1
    assert idle() == 1
    # A part of a payload is not one yet: a peer could send parts for ever.
    assert idle(fragment(3, 0, start_seq=3)) == 1
    assert idle(fragment(4, 1, start_seq=3), fragment(5, 2, start_seq=3)) == 1


@every_case("state, step", [(state, step) for state in PeerState for step in PeerStep])
def test_a_step_that_is_not_in_the_table_is_refused(state: PeerState, step: PeerStep) -> None:
    following = PEER_TABLE.rows[state].get(step)

    if following is None:
        with pytest.raises(IllegalTransition):
            PEER_TABLE.after(state, step)
    else:
        assert PEER_TABLE.after(state, step) is following
        assert following is not PeerState.CONNECTING


def test_a_dial_that_nobody_answers_repeats_its_connect() -> None:
    world = World(weather=Weather(loss=1.0))

    with pytest.raises(AssertionError, match="not done"):
        world.run(lambda: False, within_s=4)

    assert 3 <= world.packets <= 6
    assert isinstance(world.client, Peer)


def test_a_peer_that_acknowledges_nothing_costs_a_look_at_what_is_in_flight_a_hundred_times_a_second() -> None:
    outbound = Outbound(1_200)
    now = 0.0
    for _ in range(2_000):
        now += 0.0005
        outbound.push(0, b"small")
        outbound.due(now, 0.05, 1 << 20)

    looks = 0
    until = now + 1.0
    while outbound.resend_at is not None and outbound.resend_at <= until:
        now = outbound.resend_at
        outbound.due(now, 0.05, 1 << 20)
        looks += 1

    assert looks <= 110
