import pytest
from websockets.asyncio.client import ClientConnection

from holdfast import Limits
from tests.server.foreign import JSON, MSGPACK, Door, Foreigner, WebSocketWire
from tests.server.hostile.not_frames import NOT_FRAMES
from tests.server.hostile.peers import closed, tcp
from tests.server.hostile_world import World

PAYLOAD_BYTES_MAX = Limits().payload_bytes_max

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Payloads that are none


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


async def test_an_unauthenticated_client_gets_no_further_with_it(
    world: World, door: Door, subtests: pytest.Subtests
) -> None:
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


def websocket(foreigner: Foreigner) -> ClientConnection:
    assert isinstance(foreigner.wire, WebSocketWire)
    return foreigner.wire.connection


@pytest.mark.parametrize(("codec", "kind"), [(MSGPACK, "binary"), (JSON, "text")])
async def test_the_other_kind_of_message_is_not_spoken(world: World, codec: str, kind: str) -> None:
    async with world.enter(Door("websocket", codec)) as peer:
        await peer.sign_in()

        await websocket(peer).send(b"[]", text=kind == "binary")

        assert (await peer.hear_end())[1] == (1003, f"{codec} is {kind}")


@pytest.mark.parametrize("codec", [MSGPACK, JSON])
async def test_a_message_in_pieces_is_heard_as_one(world: World, codec: str) -> None:
    async with world.enter(Door("websocket", codec)) as peer:
        await peer.sign_in()
        payload = peer.encode([["request", 1, "search", {}]])

        await websocket(peer).send([payload[:3], payload[3:]], text=codec == JSON)

        assert (await peer.hear("reply"))[1] == 1


@pytest.mark.parametrize("codec", [MSGPACK, JSON])
async def test_pieces_that_are_too_much_together_end_the_connection(world: World, codec: str) -> None:
    async with world.enter(Door("websocket", codec)) as peer:
        await peer.sign_in()

        await websocket(peer).send([b" " * 40_000] * 2, text=codec == JSON)

        assert (await peer.hear_end())[1].code == 1009


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
