"""Strangers at the UDP port: they cost no memory, and get no more bytes than they sent."""

from dataclasses import replace

import pytest

from holdfast.core.limits import Limits
from holdfast.transports.enet import wire
from holdfast.transports.enet.proof import AddressProof, Proven
from holdfast.transports.port import BROKEN, GOING_AWAY
from tests.cases import every_case
from tests.transports.enet.world import CLIENT, LIMITS, SECRET

NOW = 1_000.0
CONNECT = wire.Connect(255, 1, True, 7, 255, 255, 1392, 65536, 3, 0, 0, 5000, 2, 2, 0xDEADBEEF, 0)


class Stranger:
    """Says something to a server, and repeats its cookies."""

    def __init__(self, address: str = CLIENT) -> None:
        self.proof = AddressProof(SECRET, LIMITS)
        self.address = address
        self.now = NOW

    def say(
        self, *commands: wire.Command, peer_id: int = 7, session: int = 0, taken: int | None = None
    ) -> wire.Datagram | Proven | None:
        data = wire.encode(peer_id, session, 5, commands)
        answer = self.proof.answer(wire.decode(data), self.address, self.now, size=len(data), taken_session=taken)
        if isinstance(answer, bytes):
            assert len(answer) <= len(data)
            return wire.decode(answer)
        return answer

    def connect(self, connect: wire.Connect = CONNECT, *, taken: int | None = None) -> wire.Datagram:
        answer = self.say(connect, peer_id=wire.PEER_ID_NONE, taken=taken)
        assert isinstance(answer, wire.Datagram)
        return answer

    def repeat(self, challenge: wire.Datagram, *, seq: int = 0, time_ms: int = 0, session: int | None = None) -> object:
        """Acknowledge what has the cookie, perhaps with other bits."""
        (command,) = challenge.commands
        assert command.wants_ack
        assert challenge.time_ms is not None
        ack = wire.Acknowledge(255, command.seq, False, command.seq ^ seq, challenge.time_ms ^ time_ms)
        return self.say(ack, session=challenge.session if session is None else session)


def test_a_connect_is_answered_with_a_cookie_and_its_echo_proves_the_address() -> None:
    stranger = Stranger()

    challenge = stranger.connect()

    (verify,) = challenge.commands
    assert isinstance(verify, wire.VerifyConnect)
    assert (verify.connect_id, verify.outgoing_peer_id, verify.channels) == (0xDEADBEEF, 7, 3)
    assert stranger.repeat(challenge) == Proven(7, challenge.session, 1200)


@every_case("bit", range(16))
def test_a_cookie_with_any_other_bit_proves_nothing(bit: int) -> None:
    stranger = Stranger()
    challenge = stranger.connect()

    assert stranger.repeat(challenge, seq=1 << bit) is None
    assert stranger.repeat(challenge, time_ms=1 << bit) is None


def test_a_cookie_is_good_for_one_address_one_id_one_session_one_server_and_some_seconds() -> None:
    stranger = Stranger()
    challenge = stranger.connect()
    (verify,) = challenge.commands
    assert challenge.time_ms is not None
    ack = wire.Acknowledge(255, verify.seq, False, verify.seq, challenge.time_ms)

    assert Stranger("192.0.2.1:1001").say(ack) is None
    assert stranger.say(ack, peer_id=8) is None
    assert stranger.say(ack, session=1) is None
    other = Stranger()
    other.proof = AddressProof(bytes(32), LIMITS)
    assert other.say(ack) is None
    stranger.now += 8
    assert isinstance(stranger.say(ack), Proven)
    stranger.now += 16
    assert stranger.say(ack) is None


@every_case("mtu, agreed", [(576, 576), (1000, 576), (1199, 1024), (1200, 1200), (1392, 1200), (4096, 1200)])
def test_the_cookie_remembers_the_largest_packet_that_both_can_send(mtu: int, agreed: int) -> None:
    stranger = Stranger()

    challenge = stranger.connect(wire.Connect(*[mtu if x == 1392 else x for x in fields(CONNECT)]))  # type: ignore[arg-type]

    (verify,) = challenge.commands
    assert isinstance(verify, wire.VerifyConnect)
    assert verify.mtu == agreed
    proven = stranger.repeat(challenge)
    assert isinstance(proven, Proven)
    assert proven.mtu == agreed


def fields(command: wire.Command) -> list[object]:
    return [getattr(command, name) for name in command.__struct_fields__]


def test_a_lost_acknowledgement_is_asked_for_when_the_first_payload_arrives() -> None:
    stranger = Stranger()
    session = stranger.connect().session

    question = stranger.say(wire.Reliable(0, 1, True, b"a"), session=session)

    assert isinstance(question, wire.Datagram)
    assert [type(command) for command in question.commands] == [wire.PeerPing]
    # The size of its packets is not known any more: the smallest will do.
    assert stranger.repeat(question) == Proven(7, session, wire.MTU_MIN)


def test_two_servers_cannot_be_made_to_talk_to_each_other() -> None:
    one, other = Stranger(), Stranger("192.0.2.9:7780")
    other.proof = AddressProof(bytes(32), LIMITS)

    for first in (one.connect(), one.say(wire.Reliable(0, 1, True, b"a"))):
        assert isinstance(first, wire.Datagram)
        assert other.say(*first.commands, session=first.session) is None


def test_a_goodbye_that_is_repeated_is_acknowledged_though_nobody_remembers_the_connection() -> None:
    answer = Stranger().say(wire.Disconnect(255, 9, True, 4200), session=2)

    assert isinstance(answer, wire.Datagram)
    assert answer.session == 2
    assert [(type(each), each.seq) for each in answer.commands] == [(wire.Acknowledge, 9)]
    assert Stranger().say(wire.DisconnectNow(255, 9, False, 0)) is None


@every_case(
    "command",
    [
        wire.PeerPing(255, 1, True),
        wire.Unreliable(1, 0, False, 1, b"newest"),
        wire.Acknowledge(255, 1, False, 1, 1),
        wire.BandwidthLimit(255, 1, True, 0, 0),
        wire.VerifyConnect(255, 1, True, 0, 0, 0, 1200, 65536, 3, 0, 0, 5000, 2, 2, 1),
    ],
)
def test_everything_else_is_not_answered(command: wire.Command) -> None:
    assert Stranger().say(command) is None
    assert Stranger().say(command, peer_id=wire.PEER_ID_NONE) is None


def test_a_shorter_connect_than_its_answer_is_not_answered() -> None:
    data = wire.encode(wire.PEER_ID_NONE, 0, 5, [CONNECT])

    assert AddressProof(SECRET, LIMITS).answer(wire.decode(data), CLIENT, NOW, size=47, taken_session=None) is None


@every_case("name, value", [("outgoing_peer_id", 0xFFF), ("mtu", 575), ("mtu", 4097)])
def test_a_connect_that_makes_no_sense_is_not_answered(name: str, value: int) -> None:
    values = {each: getattr(CONNECT, each) for each in CONNECT.__struct_fields__} | {name: value}

    assert Stranger().say(wire.Connect(**values), peer_id=wire.PEER_ID_NONE) is None


def test_too_few_channels_and_a_closing_server_are_refused_with_a_code() -> None:
    stranger = Stranger()
    few = {each: getattr(CONNECT, each) for each in CONNECT.__struct_fields__} | {"channels": 2}
    (refusal,) = stranger.connect(wire.Connect(**few)).commands
    assert isinstance(refusal, wire.DisconnectNow)
    assert refusal.data == BROKEN

    stranger.proof.is_closed = True
    (refusal,) = stranger.connect().commands

    assert isinstance(refusal, wire.DisconnectNow)
    assert refusal.data == GOING_AWAY


def test_a_new_connection_never_has_the_session_of_the_one_before() -> None:
    for incoming, outgoing, taken in ((255, 255, None), (0, 0, None), (0, 1, 2), (3, 3, 0), (255, 255, 1)):
        values = {each: getattr(CONNECT, each) for each in CONNECT.__struct_fields__}
        connect = wire.Connect(**values | {"incoming_session": incoming, "outgoing_session": outgoing})

        assert Stranger().connect(connect, taken=taken).session not in {incoming, outgoing, taken}


def test_a_connection_that_exists_is_not_made_again() -> None:
    stranger = Stranger()
    challenge = stranger.connect()
    (verify,) = challenge.commands
    assert challenge.time_ms is not None
    ack = wire.Acknowledge(255, verify.seq, False, verify.seq, challenge.time_ms)

    assert stranger.say(ack, session=challenge.session, taken=challenge.session) is None


def test_the_largest_packet_may_be_small() -> None:
    proof = AddressProof(SECRET, replace(LIMITS, udp_bytes_max=576))

    data = wire.encode(wire.PEER_ID_NONE, 0, 5, [CONNECT])
    answer = proof.answer(wire.decode(data), CLIENT, NOW, size=len(data), taken_session=None)

    assert isinstance(answer, bytes)
    (verify,) = wire.decode(answer).commands
    assert isinstance(verify, wire.VerifyConnect)
    assert verify.mtu == 576
    with pytest.raises(ValueError, match="at least 576"):
        Limits(udp_bytes_max=575)


def test_of_a_stranger_only_the_first_commands_are_looked_at() -> None:
    stranger = Stranger()
    challenge = stranger.connect()
    (verify,) = challenge.commands
    assert challenge.time_ms is not None
    guess = wire.Acknowledge(255, verify.seq ^ 1, False, verify.seq ^ 1, challenge.time_ms)
    ack = wire.Acknowledge(255, verify.seq, False, verify.seq, challenge.time_ms)

    assert isinstance(stranger.say(guess, guess, guess, ack, session=challenge.session), Proven)
    assert stranger.say(guess, guess, guess, guess, ack, session=challenge.session) is None
    data = wire.encode(7, 0, 5, [guess] * 60) + b"never read"
    assert len(wire.decode(data, first=4).commands) == 4
