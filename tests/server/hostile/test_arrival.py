import asyncio
from contextlib import AsyncExitStack

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from holdfast import Limits
from holdfast.core.codecs import CODECS
from tests.deadlines import DEADLINE_S
from tests.server.foreign import DOORS, End, Foreigner, Frame, TcpWire, bare_socket
from tests.server.hostile.peers import closed, tcp
from tests.server.hostile_world import World, a_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

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


async def test_an_empty_payload_of_an_unauthenticated_client_is_stopped(stranger: Foreigner) -> None:
    await stranger.say_bytes(b"")

    assert await closed(stranger) == (4202, "protocol")


@pytest.mark.parametrize("auth", [{"scheme": "root"}, {"scheme": "guest", "credential": "guest-x.é\0"}])
async def test_what_proves_nothing_does_not_sign_in(stranger: Foreigner, auth: dict[str, str]) -> None:
    await stranger.say(["hello", auth])

    assert await closed(stranger) == (4100, "auth_failed")


async def test_an_unauthenticated_client_who_says_no_hello_is_shown_out(subtests: pytest.Subtests) -> None:
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
                with subtests.test(what, codec=stranger.codec):
                    assert await closed(stranger) == (4013, "hello_timeout")


# At the door: not even a codec


async def test_a_socket_on_which_nothing_is_said_is_cut(subtests: pytest.Subtests) -> None:
    async with a_world(Limits(handshake_s=0.2)) as world:
        wires = {name: await bare_socket(*address) for name, address in world.server.addresses.items()}

        for transport, wire in wires.items():
            with subtests.test(transport):
                assert await heard_whole(wire) == b""
            await wire.hang_up()


async def test_bytes_that_are_no_preface_are_answered_with_a_close_frame(world: World) -> None:
    wire = await bare_socket(*world.server.addresses["tcp"])

    await wire.write(b"QUIT\r\n in the words of another protocol\r\n\r\n")

    assert await wire.receive() == End(1009, "a payload may have at most 256 bytes")


async def test_a_preface_without_a_codec_of_ours_is_answered_with_what_is_spoken(world: World) -> None:
    wire = await bare_socket(*world.server.addresses["tcp"])

    await wire.send(b"holdfast.v9.xml,\xff\xfe")

    assert await wire.receive() == End(1003, f"unsupported protocol; use one of {','.join(CODECS)}")


@pytest.mark.parametrize("octets", [b"\0" * 64, b"\xff" * 64, b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
async def test_bytes_that_are_no_upgrade_open_nothing(world: World, octets: bytes) -> None:
    wire = await bare_socket(*world.server.addresses["websocket"])

    await wire.write(octets)
    wire.writer.write_eof()

    assert b"101" not in await heard_whole(wire)
    await wire.hang_up()


@pytest.mark.parametrize("offer", [None, ["holdfast.v9.xml"]])
async def test_a_websocket_without_a_codec_of_ours_is_not_opened(world: World, offer: list[Subprotocol] | None) -> None:
    host, port = world.server.addresses["websocket"]

    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://{host}:{port}", subprotocols=offer, proxy=None)

    assert refused.value.response.status_code == 400


async def heard_whole(wire: TcpWire) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        return await wire.reader.read()
