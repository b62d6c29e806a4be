"""ENet's bytes: as its C library writes them, and nothing else is read."""

from random import Random

import pytest

from holdfast.transports.enet import wire
from tests.cases import every_case

# Header: peer id 5, session 2, with the clock 0x1234. Written by hand from the protocol's layout.
GOLDEN = {
    "acknowledge": ("01ff0007" "0007" "abcd", wire.Acknowledge(255, 7, False, 7, 0xABCD)),
    "connect": (
        "82ff0001" "0000" "ff" "ff" "00000570" "00010000" "00000003" "00000000" "00000000"
        "00001388" "00000002" "00000002" "deadbeef" "00000000",
        wire.Connect(255, 1, True, 0, 255, 255, 1392, 65536, 3, 0, 0, 5000, 2, 2, 0xDEADBEEF, 0),
    ),
    "verify": (
        "83ff0001" "0003" "01" "02" "000004b0" "00010000" "00000003" "00000000" "00000000"
        "00001388" "00000002" "00000002" "deadbeef",
        wire.VerifyConnect(255, 1, True, 3, 1, 2, 1200, 65536, 3, 0, 0, 5000, 2, 2, 0xDEADBEEF),
    ),
    "disconnect": ("84ff0009" "00001068", wire.Disconnect(255, 9, True, 4200)),
    "disconnect now": ("44ff0009" "00000000", wire.DisconnectNow(255, 9, False, 0)),
    "ping": ("85ff0002", wire.PeerPing(255, 2, True)),
    "reliable": ("86000003" "0002" "6869", wire.Reliable(0, 3, True, b"hi")),
    "unreliable": ("07010000" "0008" "0002" "6869", wire.Unreliable(1, 0, False, 8, b"hi")),
    "fragment": (
        "88000004" "0003" "0002" "00000002" "00000001" "00000004" "00000002" "6869",
        wire.Fragment(0, 4, True, 3, 2, 1, 4, 2, b"hi"),
    ),
    "unsequenced": ("49000000" "0001" "0002" "6869", wire.Unsequenced(0, 0, False, 1, b"hi")),
    "bandwidth": ("8aff0005" "00001000" "00002000", wire.BandwidthLimit(255, 5, True, 4096, 8192)),
    "throttle": ("8bff0006" "00001388" "00000002" "00000002", wire.ThrottleConfigure(255, 6, True, 5000, 2, 2)),
    "unreliable fragment": (
        "0c000004" "0003" "0002" "00000002" "00000001" "00000004" "00000002" "6869",
        wire.UnreliableFragment(0, 4, False, 3, 2, 1, 4, 2, b"hi"),
    ),
}  # fmt: skip
HEAD = bytes.fromhex("a0051234")
EVERYTHING = HEAD + b"".join(bytes.fromhex(text) for text, _ in GOLDEN.values())


@every_case("text, command", GOLDEN.values(), ids=GOLDEN)
def test_each_command_is_written_and_read_as_enet_does(text: str, command: wire.Command) -> None:
    data = HEAD + bytes.fromhex(text)

    assert wire.encode(5, 2, 0x1234, [command]) == data
    assert wire.decode(data) == wire.Datagram(5, 2, 0x1234, [command])
    for end in range(len(HEAD) + 1, len(data)):
        with pytest.raises(wire.Malformed):
            wire.decode(data[:end])


def test_a_datagram_has_many_commands_and_a_limit() -> None:
    ping = bytes.fromhex(GOLDEN["ping"][0])

    assert wire.decode(EVERYTHING).commands == [command for _, command in GOLDEN.values()]
    assert len(wire.decode(HEAD + wire.COMMANDS_MAX * ping).commands) == wire.COMMANDS_MAX
    with pytest.raises(wire.Malformed):
        wire.decode(HEAD + (wire.COMMANDS_MAX + 1) * ping)


def test_without_reliable_commands_the_clock_is_left_out() -> None:
    assert wire.decode(bytes.fromhex("2005")) == wire.Datagram(5, 2, None, [])


@every_case("data", ["", "80", "8005", "e005123485ff0002", "a005123480ff0002", "a00512348dff0002"])
def test_what_is_not_enet_or_uses_an_option_of_it_is_refused(data: str) -> None:
    with pytest.raises(wire.Malformed):
        wire.decode(bytes.fromhex(data))


def test_the_short_ways_write_the_same_bytes() -> None:
    assert wire.reliable(0, 3, b"hi").hex() == GOLDEN["reliable"][0]
    assert wire.acknowledge(255, 7, 0xABCD).hex() == GOLDEN["acknowledge"][0]
    assert wire.unreliable(1, 0, 8, b"hi").hex() == GOLDEN["unreliable"][0]


def test_any_bytes_are_read_or_refused_and_what_is_read_can_be_written() -> None:
    random = Random(1)
    for _ in range(5_000):
        data = bytearray(EVERYTHING)
        for _ in range(random.randrange(4)):
            data[random.randrange(len(data))] = random.randrange(256)
        data = data[: random.randrange(len(data))] if random.random() < 0.5 else data
        try:
            datagram = wire.decode(bytes(data))
        except wire.Malformed:
            continue
        again = wire.encode(datagram.peer_id, datagram.session, datagram.time_ms, datagram.commands)
        assert [each for each in wire.decode(again).commands if not same_kind(each, datagram)] == []


def same_kind(command: wire.Command, datagram: wire.Datagram) -> bool:
    return type(command) in {type(each) for each in datagram.commands}
