"""What a hostile or broken client can say to a real server, and what it gets for it.

Through all of it a second client plays on in the same room: every test ends with the proof that it lost nothing, that
nothing of ours raised, and that nothing was logged as an error.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from holdfast import Limits, Server, Session
from tests.server.foreign import (
    DEADLINE_S,
    DOORS,
    JSON,
    MSGPACK,
    Door,
    End,
    Foreigner,
    Frame,
    TcpWire,
    WebSocketWire,
    bare_socket,
)
from tests.server.hostile_world import Hall, World, a_world
from tests.server.vandal import Vandal

PAYLOAD_BYTES_MAX = Limits().payload_bytes_max


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def whole_world() -> AsyncIterator[World]:
    """One for all tests of this file: the bystander plays through all of it."""
    async with a_world(Limits()) as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(whole_world: World) -> AsyncIterator[World]:
    yield whole_world
    await whole_world.is_undisturbed()


@pytest.fixture(params=DOORS, ids=str)
def door(request: pytest.FixtureRequest) -> Door:
    door: Door = request.param
    return door


@pytest_asyncio.fixture(loop_scope="module")
async def stranger(world: World, door: Door) -> AsyncIterator[Foreigner]:
    """Connected, and has not said hello."""
    async with world.enter(door) as stranger:
        yield stranger


@pytest_asyncio.fixture(loop_scope="module")
async def guest(stranger: Foreigner) -> Foreigner:
    """Signed in, and has no seat."""
    await stranger.sign_in()
    return stranger


@dataclass
class Seated:
    """Sits in the hall, beside the bystander."""

    foreigner: Foreigner
    channel: int

    async def say(self, seq: int, n: int, *, ack: int = 0) -> None:
        await self.foreigner.say(["data", self.channel, seq, ack, "say", {"n": n}])


@pytest_asyncio.fixture(loop_scope="module")
async def seated(stranger: Foreigner, world: World) -> Seated:
    return Seated(stranger, await stranger.sit_down(world.hall.id))


async def closed(foreigner: Foreigner) -> tuple[int, str]:
    """How the server closed, told twice: in its last frame and by the transport."""
    frame, end = await foreigner.hear_end()
    assert frame is not None, f"there was no close frame before {end}"
    assert (frame[1], frame[2]) == end
    return end


# Before the hello


@pytest.mark.parametrize(
    "frame",
    [
        ["request", 1, "search", {}],
        ["data", 1, 1, 0, "say", {"n": 1}],
        ["latest", 1, "say", {"n": 1}],
        ["ack", 1, 1],
        ["pong", 1, 0, 0],
        ["bye", ""],
    ],
    ids=lambda frame: str(frame[0]),
)
async def test_whoever_speaks_before_the_hello_is_stopped(stranger: Foreigner, frame: Frame) -> None:
    await stranger.say(frame)

    assert await closed(stranger) == (4202, "protocol")


async def test_a_hello_that_asks_for_nothing_is_stopped(stranger: Foreigner) -> None:
    await stranger.say(["hello"])

    assert await closed(stranger) == (4202, "protocol")


async def test_a_second_hello_is_stopped(guest: Foreigner) -> None:
    await guest.say(["hello", {"scheme": "guest"}])

    assert await closed(guest) == (4202, "protocol")


async def test_two_hellos_in_one_payload_are_stopped(stranger: Foreigner) -> None:
    await stranger.say(["hello", {}], ["hello", {}])

    assert await closed(stranger) == (4202, "protocol")


async def test_a_first_payload_larger_than_a_hello_is_not_even_parsed(stranger: Foreigner) -> None:
    await stranger.say(["hello", {"scheme": "guest", "more": "x" * 4096}])

    assert await closed(stranger) == (4204, "too_big")


async def test_a_hello_of_just_the_allowed_size_is_welcome(stranger: Foreigner) -> None:
    empty = len(stranger.encode([["hello", {"scheme": "guest", "more": "x" * 3000}]]))
    hello = ["hello", {"scheme": "guest", "more": "x" * (3000 + 4096 - empty)}]
    assert len(stranger.encode([hello])) == 4096

    await stranger.say(hello)

    assert (await stranger.hear("welcome"))[4] == {"kind": "new"}


async def test_an_empty_payload_of_a_stranger_is_stopped(stranger: Foreigner) -> None:
    await stranger.say_bytes(b"")

    assert await closed(stranger) == (4202, "protocol")


@pytest.mark.parametrize("auth", [{"scheme": "root"}, {"scheme": "guest", "credential": "guest-x.é\0"}])
async def test_what_proves_nothing_does_not_sign_in(stranger: Foreigner, auth: dict[str, str]) -> None:
    await stranger.say(["hello", auth])

    assert await closed(stranger) == (4100, "auth_failed")


async def test_a_stranger_who_says_no_hello_is_shown_out(subtests: pytest.Subtests) -> None:
    async with a_world(Limits(hello_s=0.2)) as world, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(world.enter(door)) for door in DOORS]
        empty = [await stack.enter_async_context(world.enter(door)) for door in DOORS]
        halved = [await stack.enter_async_context(world.enter(door)) for door in DOORS if door.transport == "tcp"]

        for stranger in empty:
            await stranger.say()
        for stranger in halved:
            await tcp(stranger).write((20).to_bytes(4, "big") + stranger.encode([["hello", {}]])[:5])

        for what, strangers in (("nothing", silent), ("no frames", empty), ("half a hello", halved)):
            for stranger in strangers:
                with subtests.test(what, dialect=stranger.dialect):
                    assert await closed(stranger) == (4013, "hello_timeout")


# At the door: not even a dialect


async def test_a_socket_on_which_nothing_is_said_is_cut(subtests: pytest.Subtests) -> None:
    async with a_world(Limits(hello_s=0.2)) as world:
        wires = {name: await bare_socket(*address) for name, address in world.server.addresses.items()}

        for transport, wire in wires.items():
            with subtests.test(transport):
                assert await heard_whole(wire) == b""
            await wire.hang_up()


async def test_bytes_that_are_no_preface_are_answered_with_a_close_frame(world: World) -> None:
    wire = await bare_socket(*world.server.addresses["tcp"])

    await wire.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")

    assert await wire.receive() == End(1009, "a payload may have 256 bytes")


async def test_a_preface_without_a_dialect_of_ours_is_answered_with_what_is_spoken(world: World) -> None:
    wire = await bare_socket(*world.server.addresses["tcp"])

    await wire.send(b"holdfast.v9.xml,\xff\xfe")

    assert await wire.receive() == End(1003, f"spoken here: {MSGPACK},{JSON}")


@pytest.mark.parametrize("octets", [b"\0" * 64, b"\xff" * 64, b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
async def test_bytes_that_are_no_upgrade_open_nothing(world: World, octets: bytes) -> None:
    wire = await bare_socket(*world.server.addresses["websocket"])

    await wire.write(octets)
    wire.writer.write_eof()

    assert b"101" not in await heard_whole(wire)
    await wire.hang_up()


@pytest.mark.parametrize("offer", [None, ["holdfast.v9.xml"]])
async def test_a_websocket_without_a_dialect_of_ours_is_not_opened(
    world: World, offer: list[Subprotocol] | None
) -> None:
    host, port = world.server.addresses["websocket"]

    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://{host}:{port}", subprotocols=offer, proxy=None)

    assert refused.value.response.status_code == 400


def tcp(foreigner: Foreigner) -> TcpWire:
    assert isinstance(foreigner.wire, TcpWire)
    return foreigner.wire


def websocket(foreigner: Foreigner) -> ClientConnection:
    assert isinstance(foreigner.wire, WebSocketWire)
    return foreigner.wire.connection


async def heard_whole(wire: TcpWire) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        return await wire.reader.read()


# Payloads that are none


def said(frame: Frame, peer: Foreigner) -> bytes:
    return peer.encode([frame])


NOT_FRAMES: dict[str, Callable[[Foreigner], bytes]] = {
    "no bytes": lambda _: b"",
    "a number": lambda peer: peer.encode(7),
    "an object": lambda peer: peer.encode({"frame": "bye"}),
    "a frame that is not in an array": lambda peer: peer.encode(["bye", ""]),
    "an empty frame": lambda peer: peer.encode([[]]),
    "a frame with no name": lambda peer: peer.encode([[1, 2]]),
    "an unknown frame": lambda peer: peer.encode([["teleport", 1]]),
    "a frame in capitals": lambda peer: peer.encode([["Bye", ""]]),
    "a good frame and an unknown one": lambda peer: peer.encode([["ack", 0, 0], ["teleport", 1]]),
    "too few fields": lambda peer: peer.encode([["ack", 1]]),
    "a word for a number": lambda peer: peer.encode([["ack", "1", 0]]),
    "a truth for a number": lambda peer: peer.encode([["ack", True, 0]]),
    "a fraction for a number": lambda peer: peer.encode([["ack", 1.5, 0]]),
    "nothing for a number": lambda peer: peer.encode([["ack", None, 0]]),
    "a number for a word": lambda peer: peer.encode([["request", 1, 2, {}]]),
    "a negative number": lambda peer: peer.encode([["ack", 1, -1]]),
    "a number that not every language can hold": lambda peer: peer.encode([["ack", 1, 2**53]]),
    "message zero": lambda peer: peer.encode([["data", 1, 0, 0, "say", {"n": 1}]]),
    "request zero": lambda peer: peer.encode([["request", 0, "search", {}]]),
    "no name": lambda peer: peer.encode([["latest", 1, "", None]]),
    "a long name": lambda peer: peer.encode([["latest", 1, "x" * 65, None]]),
    "a long farewell": lambda peer: peer.encode([["bye", "x" * 1025]]),
    "half a payload": lambda peer: peer.encode([["ack", 1, 0]])[:-1],
    "a payload and a half": lambda peer: peer.encode([["ack", 1, 0]]) + peer.encode([["ack", 1, 0]])[:3],
    "arrays in arrays": lambda peer: b"\x91" * 60_000 if peer.dialect == MSGPACK else b"[" * 60_000,
    "a body nested beyond reason": lambda peer: nested(peer, 30_000)[:-1],
    "an array that promises 4 billion frames": lambda peer: b"\xdd\xff\xff\xff\xff",
    "a string that promises 4 GB": lambda peer: b"\x91\x92\xa3bye\xdb\xff\xff\xff\xff",
    "text that is not Unicode": lambda peer: b"\x91\x92\xa3bye\xa1\xff",
    "noise": lambda peer: bytes(range(1, 128)),
    **{
        f"a server's {frame[0]}": partial(said, frame)
        for frame in (
            ["welcome", "s", "p", "t", {"kind": "new"}, {}],
            ["reply", 1, None, None],
            ["ping", 1, 0, 0, 0.0],
            ["seat", "joined", 1, 1, "r", "hall"],
            ["close", 4000, "dropped", "", 0.0],
        )
    },
}


def nested(peer: Foreigner, depth: int) -> bytes:
    """A data frame whose body is an array in an array in an array …"""
    frame = peer.encode([["data", 1, 1, 0, "say", None]])
    if peer.dialect == MSGPACK:
        return frame[:-1] + b"\x91" * depth + b"\x01"
    return frame.replace(b"null", b"[" * depth + b"]" * depth)


async def test_what_is_not_a_payload_of_a_clients_frames_is_stopped(
    world: World, door: Door, subtests: pytest.Subtests
) -> None:
    for what, payload_of in NOT_FRAMES.items():
        async with world.enter(door) as peer:
            await peer.sign_in()
            payload = payload_of(peer)

            await peer.say_bytes(payload)

            with subtests.test(what):
                if door == Door("websocket", JSON) and not payload.isascii():
                    assert await peer.hear_end() == (None, (1007, "the text is not UTF-8"))
                else:
                    assert await closed(peer) == (4202, "protocol")


async def test_a_stranger_gets_no_further_with_it(world: World, door: Door, subtests: pytest.Subtests) -> None:
    for what, payload_of in NOT_FRAMES.items():
        async with world.enter(door) as stranger:
            await stranger.say_bytes(payload_of(stranger))

            with subtests.test(what):
                assert (await stranger.hear_end())[1].code in {4202, 4204, 1007}


async def test_fields_that_we_do_not_know_yet_are_passed_over(guest: Foreigner) -> None:
    await guest.say(["request", 1, "search", {}, "from", {"the": "future"}])

    assert await guest.hear("reply", lambda frame: bool(frame[1] == 1))


# Payloads that are too much


@pytest.mark.parametrize("bytes_over", [1, PAYLOAD_BYTES_MAX])
async def test_a_payload_above_the_limit_ends_the_connection(guest: Foreigner, bytes_over: int) -> None:
    await guest.say_bytes(b" " * (PAYLOAD_BYTES_MAX + bytes_over))

    _, end = await guest.hear_end()
    assert end.code == 1009


async def test_a_payload_of_just_the_allowed_size_is_read(guest: Foreigner) -> None:
    empty = len(guest.encode([["request", 1, "search", {}, "x" * 65_000]]))

    await guest.say(["request", 1, "search", {}, "x" * (65_000 + PAYLOAD_BYTES_MAX - empty)])

    assert (await guest.hear("reply"))[1] == 1


async def test_a_peer_that_hangs_up_in_the_middle_of_a_payload_has_only_dropped(world: World) -> None:
    faults = world.server.counters.protocol_errors
    async with world.enter(Door("tcp", MSGPACK)) as peer:
        channel = await peer.sit_down(world.hall.id)

        await tcp(peer).write((1000).to_bytes(4, "big") + peer.encode([["data", channel, 1, 0, "say", {"n": 1}]]))
        await peer.wire.hang_up()

    async with world.enter(Door("tcp", MSGPACK)) as again:
        welcome = await again.come_back(peer.welcome, {"channel": channel, "generation": 1, "received": 0})
        assert welcome[4]["kind"] == "resumed"
    assert world.server.counters.protocol_errors == faults
    assert world.said_by(peer) == []


# The wrong kind of WebSocket message


@pytest.mark.parametrize(("dialect", "kind"), [(MSGPACK, "binary"), (JSON, "text")])
async def test_the_other_kind_of_message_is_not_spoken(world: World, dialect: str, kind: str) -> None:
    async with world.enter(Door("websocket", dialect)) as peer:
        await peer.sign_in()

        await websocket(peer).send(b"[]", text=kind == "binary")

        assert (await peer.hear_end())[1] == (1003, f"{dialect} is {kind}")


@pytest.mark.parametrize("dialect", [MSGPACK, JSON])
async def test_a_fragmented_message_is_not_spoken(world: World, dialect: str) -> None:
    async with world.enter(Door("websocket", dialect)) as peer:
        await peer.sign_in()

        await websocket(peer).send([b"[", b"]"], text=dialect == JSON)

        assert (await peer.hear_end())[1].code == 1002


async def test_garbage_after_the_handshake_ends_a_websocket(world: World) -> None:
    async with world.enter(Door("websocket", MSGPACK)) as peer:
        await peer.sign_in()

        websocket(peer).transport.write(b"\xff" * 64)

        assert (await peer.hear_end())[1].code in {1002, 1006}


async def test_garbage_after_the_handshake_ends_a_tcp_link(world: World) -> None:
    async with world.enter(Door("tcp", MSGPACK)) as peer:
        await peer.sign_in()

        await tcp(peer).write(b"\x7f" * 64)

        assert (await peer.hear_end())[1].code == 1009


# Sequence numbers


@pytest.mark.parametrize("name", ["ack", "pong", "data"])
async def test_what_was_never_sent_cannot_be_acknowledged(seated: Seated, name: str) -> None:
    channel, peer = seated.channel, seated.foreigner
    frame = {"ack": ["ack", channel], "pong": ["pong", 1, channel], "data": ["data", channel, 1]}[name]
    frame += [2**53 - 1, "say", {"n": 1}][: 3 if name == "data" else 1]

    await peer.say(frame)

    assert await closed(peer) == (4002, "sequence")


async def test_an_acknowledgement_for_a_channel_that_is_not_ours_is_nothing(guest: Foreigner) -> None:
    await guest.say(["ack", 7, 99], ["pong", 99, 7, 99])

    assert (await guest.ask(1, "search", {}))[3] is None


async def test_a_gap_closes_the_connection_and_the_session_resumes_with_nothing_lost(
    world: World, door: Door, seated: Seated
) -> None:
    peer = seated.foreigner
    await seated.say(1, 11)
    said = await peer.message("said")

    await seated.say(3, 33)
    assert await closed(peer) == (4002, "sequence")

    async with world.enter(door) as again:
        position = {"channel": seated.channel, "generation": 1, "received": said[2]}
        welcome = await again.come_back(peer.welcome, position)
        await again.say(
            ["data", seated.channel, 2, said[2], "say", {"n": 22}],
            ["data", seated.channel, 3, said[2], "say", {"n": 33}],
        )
        assert [(await again.message("said"))[5]["n"] for _ in range(2)] == [22, 33]
    assert welcome[4]["kind"] == "resumed"
    assert [(info["channel"], info["applied"]) for info in welcome[6]] == [(seated.channel, 1)]
    assert world.said_by(peer) == [11, 22, 33]


async def test_a_message_that_comes_again_and_again_is_applied_once(world: World, seated: Seated) -> None:
    peer = seated.foreigner
    doubles = world.server.counters.duplicates_ignored
    for _ in range(3):
        await seated.say(1, 11)
    await seated.say(2, 22)
    await peer.message("said")
    await peer.message("said")

    await seated.say(1, 99)
    await seated.say(3, 33)

    # The answer to what came after it: by then the server has read it.
    assert (await peer.message("said"))[5] == {"n": 33}
    assert world.said_by(peer) == [11, 22, 33]
    assert world.server.counters.duplicates_ignored == doubles + 3


async def test_a_repeated_message_in_one_payload_is_applied_once(world: World, seated: Seated) -> None:
    peer = seated.foreigner
    frame = ["data", seated.channel, 1, 0, "say", {"n": 11}]

    await peer.say(frame, frame, frame)

    await peer.hear_ack(seated.channel, 1)
    assert world.said_by(peer) == [11]


async def test_more_messages_than_the_window_close_the_connection(subtests: pytest.Subtests) -> None:
    async with a_world(Limits(window_messages_max=8)) as world:
        for door in DOORS:
            busy = await world.server.create_room("hall")
            assert isinstance(busy, Hall)
            async with world.enter(door) as peer:
                channel = await peer.sit_down(busy.id)

                await peer.say(*(["data", channel, seq, 0, "hold", {}] for seq in range(1, 10)))

                with subtests.test(door=str(door)):
                    assert await closed(peer) == (4002, "sequence")
            busy.released.set()


@pytest.mark.parametrize("away", [-1, 1, 2**53 - 10])
async def test_a_message_for_a_channel_that_never_was_breaks_the_protocol(
    world: World, seated: Seated, away: int
) -> None:
    peer = seated.foreigner

    await peer.say(["data", seated.channel + away, 1, 0, "say", {"n": 99}])

    assert await closed(peer) == (4202, "protocol")
    assert world.said_by(peer) == []


async def test_a_message_without_a_seat_breaks_the_protocol(world: World, guest: Foreigner) -> None:
    await guest.say(["data", 1, 1, 0, "say", {"n": 99}])

    assert await closed(guest) == (4202, "protocol")
    assert world.said_by(guest) == []


async def test_an_unreliable_message_without_a_seat_changes_nothing(world: World, guest: Foreigner) -> None:
    await guest.say(["latest", 1, "say", {"n": 99}])

    assert (await guest.ask(1, "search", {}))[3] is None
    assert world.said_by(guest) == []


async def test_messages_that_were_on_their_way_when_the_seat_was_given_back_change_nothing(
    world: World, seated: Seated
) -> None:
    peer = seated.foreigner

    await peer.say(["request", 2, "leave", {}])
    assert (await peer.message("holdfast.left"))[5]["reason"] == "left"
    await seated.say(1, 99)

    assert (await peer.ask(3, "search", {}))[3] is None
    assert world.said_by(peer) == []


# Messages that the room does not take: each is answered in the stream, and counts as applied


REFUSED_BODIES: dict[str, tuple[str, Any, str]] = {
    "an unknown type": ("fly", {}, "not_found"),
    "a type of ours": ("holdfast.left", {"reason": "kicked"}, "not_found"),
    "a missing field": ("say", {}, "invalid"),
    "a wrong type": ("say", {"n": "one"}, "invalid"),
    "an array": ("say", [1], "invalid"),
    "nothing": ("say", None, "invalid"),
    "a word that is not a choice": ("walk", {"way": "up"}, "invalid"),
    "a long word that is not a choice": ("walk", {"way": "x" * 65_400}, "invalid"),
    "what the game refuses": ("guess", {"text": "no"}, "refused"),
    "what the game refuses at length": ("guess", {"text": "x" * 65_400}, "refused"),
    "a number beyond every limit": ("say", {"n": "BIG"}, "invalid"),
}


async def test_a_message_that_the_room_does_not_take_is_answered_and_the_next_one_is_applied(
    seated: Seated, subtests: pytest.Subtests
) -> None:
    peer, seq = seated.foreigner, 0
    for what, (kind, body, code) in REFUSED_BODIES.items():
        payload = peer.encode([["data", seated.channel, seq + 1, 0, kind, body]])

        await peer.say_bytes(payload.replace(b'"BIG"', b"9" * 6000))
        await seated.say(seq + 2, seq)

        with subtests.test(what):
            refusal = (await peer.message("holdfast.refused"))[5]
            assert (refusal["seq"], refusal["type"], refusal["code"]) == (seq + 1, kind, code)
            assert 0 < len(refusal["message"]) <= 1024
            assert (await peer.message("said"))[5] == {"n": seq}
        seq += 2


@pytest.mark.parametrize("kind", ["say", "walk", "guess"])
async def test_an_unreliable_message_that_the_room_does_not_take_is_dropped(seated: Seated, kind: str) -> None:
    peer = seated.foreigner

    await peer.say(["latest", seated.channel, kind, {"way": "x" * 65_000}], ["latest", seated.channel, "fly", {}])
    await seated.say(1, 11)

    assert (await peer.message("said"))[5] == {"n": 11}


async def test_a_body_of_invalid_text_is_refused(world: World) -> None:
    async with world.enter(Door("tcp", MSGPACK)) as peer:
        channel = await peer.sit_down(world.hall.id)
        frame = peer.encode([["data", channel, 1, 0, "guess", {"text": "!"}]]).replace(b"\xa1!", b"\xa1\xff")

        await peer.say_bytes(frame)

        assert (await peer.message("holdfast.refused"))[5]["code"] == "invalid"


# Requests


@pytest.mark.parametrize("request_id", [2, 2**53 - 1])
async def test_a_request_out_of_order_closes_the_connection(guest: Foreigner, request_id: int) -> None:
    await guest.say(["request", request_id, "search", {}])

    assert await closed(guest) == (4002, "sequence")


async def test_a_request_out_of_order_leaves_nothing_behind(world: World, guest: Foreigner) -> None:
    await guest.say(["request", 2, "search", {}])
    await closed(guest)

    kept = [key for each in vars(world.server.node.desk).values() if isinstance(each, dict) for key in each]
    assert guest.welcome[1] not in {key.id for key in kept if isinstance(key, Session)}


async def test_too_many_requests_close_the_connection(guest: Foreigner) -> None:
    most = guest.welcome[5]["requests_in_flight_max"]

    await guest.say(*(["request", n, "search", {}] for n in range(1, most + 2)))

    assert await closed(guest) == (4002, "sequence")


async def test_as_many_requests_as_the_terms_allow_are_answered_in_order(guest: Foreigner) -> None:
    most = guest.welcome[5]["requests_in_flight_max"]

    await guest.say(*(["request", n, "search", {}] for n in range(1, most + 1)))

    assert [(await guest.hear("reply"))[1] for _ in range(most)] == list(range(1, most + 1))


async def test_a_repeated_request_is_carried_out_once_and_answered_alike(world: World, guest: Foreigner) -> None:
    request = ["request", 1, "create", {"kind": "hall"}]
    rooms = len(world.server.rooms)

    await guest.say(request, request)
    first = await guest.hear("reply")
    await guest.say(["request", 1, "create", {"kind": "hall", "max_players": 2}])
    second = await guest.hear("reply")

    assert first == second
    assert len(world.server.rooms) == rooms + 1


REFUSED_REQUESTS: dict[str, tuple[str, Any, str]] = {
    "an unknown operation": ("drop_tables", {}, "not_found"),
    "an unknown room": ("join", {"room": "nowhere"}, "not_found"),
    "an unknown kind": ("create", {"kind": "castle"}, "not_found"),
    "a missing argument": ("join", {}, "invalid"),
    "an unknown argument": ("leave", {"slowly": True}, "invalid"),
    "an unknown argument with a long name": ("leave", {"x" * 65_000: True}, "invalid"),
    "a wrong type": ("join", {"room": 7}, "invalid"),
    "a list of arguments": ("join", ["nowhere"], "invalid"),
    "no arguments": ("search", None, "invalid"),
    "an empty name": ("create", {"kind": ""}, "invalid"),
    "a long name": ("create", {"kind": "x" * 65}, "invalid"),
    "a limit of nothing": ("search", {"limit": 0}, "invalid"),
    "a limit without limits": ("search", {"limit": 101}, "invalid"),
    "no seats": ("create", {"kind": "hall", "max_players": 0}, "invalid"),
    "more seats than the kind has": ("create", {"kind": "hall", "max_players": 2**40}, "invalid"),
    "too many properties": ("create", {"kind": "hall", "properties": {str(n): n for n in range(65)}}, "invalid"),
    "properties with a long name": ("create", {"kind": "hall", "properties": {"x" * 65: 1}}, "invalid"),
    "no seat to leave": ("leave", {}, "not_seated"),
}


async def test_a_request_that_cannot_be_carried_out_is_answered_with_the_problem(
    guest: Foreigner, subtests: pytest.Subtests
) -> None:
    for n, (what, (operation, arguments, code)) in enumerate(REFUSED_REQUESTS.items(), 1):
        reply = await guest.ask(n, operation, arguments)

        with subtests.test(what):
            assert (reply[2], reply[3]["code"]) == (None, code)
            assert 0 < len(reply[3]["message"]) <= 1024


# Room properties: one client chooses them, every other client is shown them


async def everybody_can_search(world: World) -> list[Frame]:
    replies = []
    for each in DOORS:
        async with world.enter(each) as peer:
            await peer.sign_in()
            replies.append(await peer.ask(1, "search", {"limit": 100}))
    return replies


@pytest.mark.parametrize(
    "value", [msgspec.msgpack.Ext(5, b"x"), {(1, 2): 3}, {"deep": [{"er": msgspec.msgpack.Ext(1, b"")}]}]
)
async def test_properties_that_another_dialect_cannot_say_are_refused(world: World, value: Any) -> None:
    async with world.enter(Door("tcp", MSGPACK)) as peer:
        await peer.sign_in()

        reply = await peer.ask(1, "create", {"kind": "hall", "properties": {"map": value}})

    assert reply[3]["code"] == "invalid"
    assert [reply[3] for reply in await everybody_can_search(world)] == [None] * len(DOORS)


async def test_a_number_that_another_dialect_cannot_say_is_refused(world: World) -> None:
    async with world.enter(Door("tcp", JSON)) as peer:
        await peer.sign_in()

        reply = await peer.ask(1, "create", {"kind": "hall", "properties": {"map": 2**70}})

    assert reply[3] is None or reply[3]["code"] == "invalid"
    assert [reply[3] for reply in await everybody_can_search(world)] == [None] * len(DOORS)


async def test_no_properties_make_an_answer_larger_than_a_payload(world: World, guest: Foreigner) -> None:
    sizes = [65_300, 20_000, 4000, 1000]
    requests = [
        ["request", n, "create", {"kind": "hall", "properties": {"map": "x" * size}}] for n, size in enumerate(sizes, 1)
    ]
    for request in requests:
        await guest.say(request)
        await guest.hear("reply")
    for n in range(5, 105):
        await guest.ask(n, "create", {"kind": "hall", "properties": {"map": "x" * 1000}})

    rooms = await world.bystander.session.search(limit=100)

    assert rooms
    await world.bystander.plays_on()


# Coming back


async def test_a_wrong_token_opens_nothing(world: World, door: Door, seated: Seated) -> None:
    async with world.enter(door) as thief:
        await thief.say(["hello", None, {"session": seated.foreigner.welcome[1], "token": "x" * 43}])

        assert await closed(thief) == (4101, "expired")

    await seated.say(1, 11)
    assert (await seated.foreigner.message("said"))[5] == {"n": 11}


async def test_an_unknown_session_opens_nothing(stranger: Foreigner) -> None:
    await stranger.say(["hello", None, {"session": "nobody", "token": "x" * 43}])

    assert await closed(stranger) == (4101, "expired")


async def test_whoever_cannot_resume_but_can_sign_in_begins_anew_and_is_told(stranger: Foreigner) -> None:
    await stranger.say(["hello", {"scheme": "guest"}, {"session": "nobody", "token": "x" * 43}])

    assert (await stranger.hear("welcome"))[4] == {"kind": "reset", "reason": "expired"}


async def test_a_used_token_revokes_the_session_for_both(world: World, door: Door, guest: Foreigner) -> None:
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(world.enter(door))
        await owner.come_back(guest.welcome)
        assert await closed(guest) == (4209, "superseded")
        assert (await owner.ask(1, "search", {}))[3] is None

        thief = await stack.enter_async_context(world.enter(door))
        await thief.say(["hello", None, {"session": guest.welcome[1], "token": guest.welcome[3]}])

        assert await closed(thief) == (4103, "token_reused")
        assert await closed(owner) == (4103, "token_reused")
        late = await stack.enter_async_context(world.enter(door))
        await late.say(["hello", None, {"session": owner.welcome[1], "token": owner.welcome[3]}])
        assert await closed(late) == (4101, "expired")


async def test_a_token_whose_answer_was_lost_is_still_good(world: World, door: Door, guest: Foreigner) -> None:
    async with world.enter(door) as unlucky, world.enter(door) as lucky:
        await unlucky.come_back(guest.welcome)

        welcome = await lucky.come_back(guest.welcome)

        assert welcome[4]["kind"] == "resumed"
        assert await closed(unlucky) == (4209, "superseded")


async def test_a_session_does_not_change_its_dialect(world: World, door: Door, guest: Foreigner) -> None:
    other = Door(door.transport, JSON if door.dialect == MSGPACK else MSGPACK)
    async with world.enter(other) as peer:
        await peer.say(["hello", None, {"session": guest.welcome[1], "token": guest.welcome[3]}])

        assert await closed(peer) == (4202, "protocol")
    assert (await guest.ask(1, "search", {}))[3] is None


async def test_a_session_may_change_its_transport(world: World, door: Door, guest: Foreigner) -> None:
    other = Door("tcp" if door.transport == "websocket" else "websocket", door.dialect)
    async with world.enter(other) as peer:
        assert (await peer.come_back(guest.welcome))[4]["kind"] == "resumed"


@pytest.mark.parametrize(
    "position",
    [{"generation": 1, "received": 2**53 - 1}, {"generation": 99, "received": 0}, {"generation": 1}],
    ids=["what was never sent", "a generation that never was", "nothing at all"],
)
async def test_whoever_claims_what_cannot_be_is_given_the_state_anew(
    world: World, door: Door, seated: Seated, position: dict[str, int]
) -> None:
    async with world.enter(door) as again:
        welcome = await again.come_back(seated.foreigner.welcome, {"channel": seated.channel, **position})

        assert welcome[4]["kind"] == "resynced"
        assert [info["generation"] for info in welcome[6]] == [2]
        assert (await again.hear("data"))[2] == 1


async def test_positions_on_channels_that_are_not_ours_are_passed_over(
    world: World, door: Door, guest: Foreigner
) -> None:
    async with world.enter(door) as again:
        welcome = await again.come_back(
            guest.welcome, *({"channel": n, "generation": 1, "received": 5} for n in range(8))
        )

        assert (welcome[4]["kind"], welcome[6]) == ("resumed", [])


async def test_more_positions_than_a_session_has_channels_are_stopped(
    world: World, door: Door, guest: Foreigner
) -> None:
    positions = [{"channel": n, "generation": 1, "received": 0} for n in range(9)]
    async with world.enter(door) as again:
        await again.say(
            ["hello", None, {"session": guest.welcome[1], "token": guest.welcome[3], "positions": positions}]
        )

        assert await closed(again) == (4202, "protocol")


# After the end


async def test_what_follows_a_bye_is_not_heard_and_holds_up_nobody(world: World, seated: Seated) -> None:
    peer = seated.foreigner

    await peer.say(["bye", "enough"], ["data", seated.channel, 1, 0, "say", {"n": 99}], ["hello", {}])

    assert await closed(peer) == (4200, "bye")
    assert world.said_by(peer) == []


async def test_who_only_listens_hears_the_room_after_somebody_elses_bye(subtests: pytest.Subtests) -> None:
    """Nobody else may speak here: a payload would set right what a bye had left in disorder."""
    async with Server([Hall], port=0, tcp_port=0) as server:
        hall = await server.create_room("hall")
        for door in DOORS:
            async with door.enter(server.addresses) as listener, door.enter(server.addresses) as leaver:
                await listener.sit_down(hall.id)
                await leaver.sign_in()

                await leaver.say(["bye"], ["ack", 0, 0])
                await leaver.hear_end()

                with subtests.test(door=str(door)):
                    first = await listener.message("turned")
                    later = [await listener.message("turned") for _ in range(20)]
                    assert [frame[2] - first[2] for frame in later] == list(range(1, 21))


# All of it at once


async def test_a_crowd_of_vandals_disturbs_nobody(world: World) -> None:
    async def spoil(door: Door, what: str) -> None:
        async with world.enter(door) as peer:
            channel = await peer.sit_down(world.hall.id)
            await peer.say(["data", channel, 1, 0, "say", {"n": 1}], ["latest", channel, "say", {"n": "?"}])
            await peer.say_bytes(NOT_FRAMES[what](peer))
            await peer.hear_end()

    before = world.bystander.echoes
    await asyncio.gather(*(spoil(door, what) for what in list(NOT_FRAMES)[::2] for door in DOORS[::3]))

    assert world.bystander.echoes > before


@pytest.mark.parametrize("seed", range(4))
async def test_good_frames_in_no_good_order_disturb_nobody(world: World, seed: int) -> None:
    before = world.bystander.echoes

    await asyncio.gather(*(Vandal(world, door, seed * len(DOORS) + n).rage(8) for n, door in enumerate(DOORS)))

    assert world.bystander.echoes > before
