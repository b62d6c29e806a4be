"""How a WebSocket ends, checked against peers that we did not write: bare sockets and the websockets library."""

import socket
from collections.abc import Callable

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from holdfast.testing.transport_checks import BINARY
from holdfast.transports import websocket
from holdfast.transports.port import BROKEN, NO_STATUS, NORMAL, VANISHED, Listener
from tests.transports import raw
from tests.transports.harness import Harness, SocketAdapter, client_context
from tests.transports.raw import RawPeer, close_body, websocket_frame
from tests.transports.upgrades import IMPATIENT, raw_link, upgrade


async def foreign_client(listener: Listener) -> ClientConnection:
    host, port = listener.addresses[0]
    return await connect(f"ws://{host}:{port}", subprotocols=[Subprotocol(BINARY.name)], proxy=None)


# The end.


@pytest.mark.parametrize("code", [NORMAL, 1001, 3000, 4008, 4999])
async def test_a_close_frame_is_answered_with_its_code_before_the_socket_is_closed(harness: Harness, code: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE, close_body(code, b"bye")))

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(code, b"bye"))
    assert await peer.read_rest() == b""
    assert await accepted.loss() == (code, "bye")


async def test_a_close_frame_without_a_code_is_answered_and_told_as_no_status(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE))

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(NORMAL))
    assert await accepted.loss() == (NO_STATUS, "")


@pytest.mark.parametrize("code", [0, 999, 1005, 1006, 1015, 2999, 5000, 65535])
async def test_a_close_code_that_nobody_may_send_breaks_the_protocol(harness: Harness, code: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE, close_body(code)))

    opcode, body = await peer.read_websocket_frame()
    assert (opcode, body[:2]) == (raw.CLOSE, BROKEN.to_bytes(2, "big"))
    assert (await accepted.loss())[0] == BROKEN


@pytest.mark.parametrize(
    "behind", [websocket_frame(raw.CLOSE, close_body(NORMAL)), websocket_frame(0, first_byte=0x83), b"\xff\xff\xff"]
)
async def test_a_close_frame_is_answered_whatever_comes_behind_it(harness: Harness, behind: bytes) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE, close_body(4001, b"bye")) + behind)

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(4001, b"bye"))
    assert await accepted.loss() == (4001, "bye")


async def test_data_behind_a_close_frame_is_not_delivered(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.BINARY, b"before") + websocket_frame(raw.CLOSE, close_body(NORMAL)))
    peer.write(websocket_frame(raw.BINARY, b"behind") + websocket_frame(raw.PING, b"behind"))

    assert await accepted.loss() == (NORMAL, "")
    assert accepted.payloads == [b"before"]


async def test_our_close_waits_for_the_answer_of_the_peer(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    accepted.link.close(4008, "slow")

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(4008, b"slow"))
    await harness.fence()
    assert accepted.end is None
    peer.write(websocket_frame(raw.BINARY, b"on its way") + websocket_frame(raw.CLOSE, close_body(4008)))
    assert await accepted.loss() == (4008, "slow")
    assert accepted.payloads == []


async def test_a_peer_that_closes_and_does_not_read_is_cut(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))
    while accepted.congested_count == 0:
        accepted.link.send(b"x" * 50_000)

    peer.write(websocket_frame(raw.CLOSE, close_body(NORMAL)))

    assert await accepted.loss() == (NORMAL, "")


async def test_a_peer_that_breaks_the_rules_and_does_not_read_is_cut_once_it_is_closed(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))
    while accepted.congested_count == 0:
        accepted.link.send(b"x" * 50_000)
    await peer.write_all(websocket_frame(raw.BINARY, b"x" * 100_001))
    await harness.fence()

    accepted.link.close(4008, "slow")

    assert await accepted.loss() == (4008, "slow")


async def test_a_peer_that_hangs_up_right_behind_its_close_frame_does_not_upset_tls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness(SocketAdapter(websocket, "wss", tls=True))
    peer = await harness.raw(await harness.listen(), client_context())
    peer.write(upgrade())
    await peer.read_head()
    accepted = await harness.accept()

    peer.write(websocket_frame(raw.CLOSE, close_body(NORMAL)))
    peer.hang_up()

    assert await accepted.loss() == (NORMAL, "")
    assert caplog.records == []
    await harness.finish()


@pytest.mark.parametrize("farewell", [RawPeer.reset, RawPeer.hang_up, RawPeer.half_close])
async def test_a_peer_that_goes_without_a_close_frame_has_vanished(
    harness: Harness, farewell: Callable[[RawPeer], None]
) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    peer.write(websocket_frame(raw.BINARY, b"whole") + websocket_frame(raw.BINARY, b"in the middle")[:-3])
    await accepted.payload()

    farewell(peer)

    assert await accepted.loss() == (VANISHED, "")
    assert accepted.payloads == [b"whole"]


async def test_small_payloads_are_not_delayed_by_the_kernel(harness: Harness) -> None:
    for recorder in await harness.pair():
        tcp = recorder.link._tcp  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public shows it

        assert tcp.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# Another implementation.


async def test_the_websockets_library_is_understood(harness: Harness) -> None:
    listener = await harness.listen()

    async with await foreign_client(listener) as client:
        accepted = await harness.accept()
        await client.send(b"there")
        accepted.link.send(b"x" * 70_000)
        assert await accepted.payload() == [b"there"]
        assert await client.recv() == b"x" * 70_000
        assert client.subprotocol == BINARY.name
        await (await client.ping())

    assert await accepted.loss() == (NORMAL, "")


@pytest.mark.parametrize("code", [1012, 4008, 4209])
async def test_close_codes_travel_both_ways(harness: Harness, code: int) -> None:
    listener = await harness.listen()
    first, second = await foreign_client(listener), await foreign_client(listener)
    told, telling = await harness.accept(1), await harness.accept(2)

    await first.close(code, "from the client")
    telling.link.close(code, "from the server")

    assert await told.loss() == (code, "from the client")
    with pytest.raises(ConnectionClosed) as closed:
        await second.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (code, "from the server")
    assert await telling.loss() == (code, "from the server")
