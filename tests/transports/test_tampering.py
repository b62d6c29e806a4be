"""Whatever is done to the bytes of an encrypted link on their way: nothing wrong is received, and the link ends."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.transports.arrivals import Arrivals
from holdfast.transports.listening import SocketListener
from holdfast.transports.port import VANISHED
from holdfast.transports.secure import Greeting, Tunnel
from holdfast.transports.tcp import AcceptedTransport
from tests.transports.harness import BINARY, LIMITS, LOCK, PINNED
from tests.transports.raw import close_body, tcp_frame
from tests.transports.recorder import Recorder

Tamper = Callable[[list[bytes]], list[bytes]]


class Wire(asyncio.Transport):
    """What a protocol writes to, without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_cut = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_cut = True

    def abort(self) -> None:
        self.is_cut = True


class Link:
    """An open link: the client's tunnel, and the server's end with nothing but bytes between them."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.wire = Wire()
        self.server = AcceptedTransport(SocketListener(Arrivals(LIMITS)), lambda: self.recorder, [BINARY], LIMITS, LOCK)
        self.server.connection_made(self.wire)
        greeting = Greeting(PINNED, BINARY.name.encode())
        self.server.data_received(tcp_frame(greeting.frame))
        self.tunnel: Tunnel = greeting.answered(self.wire.written[4:])[1]
        self.wire.written = b""

    def hear(self, data: bytes, chunk: int) -> None:
        """In pieces, until the server has had enough; then the peer is gone."""
        for start in range(0, len(data), chunk):
            if self.wire.is_cut:
                break
            self.server.data_received(data[start : start + chunk])
        self.server.connection_lost(None)


PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=6)


async def received(payloads: list[bytes], tamper: Tamper, chunk: int) -> tuple[list[bytes], tuple[int, str] | None]:
    link = Link()
    frames = [tcp_frame(link.tunnel.seal(payload)) for payload in payloads]
    frames.append(tcp_frame(link.tunnel.seal_close(close_body(4000, b"done"))))

    link.hear(b"".join(tamper(frames)), chunk)

    assert link.recorder.violations == []
    return link.recorder.payloads, link.recorder.end


def check(payloads: list[bytes], tamper: Tamper, chunk: int, *, whole: int) -> None:
    """Exactly so many payloads arrive, unchanged and in order, and the end is not the one that was said."""
    heard, end = asyncio.run(received(payloads, tamper, chunk))

    assert heard == payloads[:whole]
    assert end is not None
    assert end[0] != 4000


@given(PAYLOADS, st.integers(1, 200))
def test_what_nobody_touched_arrives_with_its_end(payloads: list[bytes], chunk: int) -> None:
    assert asyncio.run(received(payloads, lambda frames: frames, chunk)) == (payloads, (4000, "done"))


@given(PAYLOADS, st.integers(1, 200), st.data())
def test_a_bit_is_flipped(payloads: list[bytes], chunk: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(payloads)))

    def tamper(frames: list[bytes]) -> list[bytes]:
        bit = data.draw(st.integers(0, len(frames[number]) * 8 - 1))
        changed = bytearray(frames[number])
        changed[bit // 8] ^= 1 << bit % 8
        return [*frames[:number], bytes(changed), *frames[number + 1 :]]

    check(payloads, tamper, chunk, whole=number)


@given(PAYLOADS, st.integers(1, 200), st.data())
def test_two_frames_change_places(payloads: list[bytes], chunk: int, data: st.DataObject) -> None:
    first, second = sorted(
        data.draw(st.lists(st.integers(0, len(payloads)), min_size=2, max_size=2, unique=True), "which")
    )

    def tamper(frames: list[bytes]) -> list[bytes]:
        frames[first], frames[second] = frames[second], frames[first]
        return frames

    check(payloads, tamper, chunk, whole=first)


@given(PAYLOADS, st.integers(1, 200), st.data())
def test_a_frame_is_repeated(payloads: list[bytes], chunk: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(payloads) - 1))
    later = data.draw(st.integers(number, len(payloads) - 1))

    def tamper(frames: list[bytes]) -> list[bytes]:
        return [*frames[: later + 1], frames[number], *frames[later + 1 :]]

    check(payloads, tamper, chunk, whole=later + 1)


@given(PAYLOADS, st.integers(1, 200), st.data())
def test_a_frame_is_left_out(payloads: list[bytes], chunk: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(payloads) - 1))

    check(payloads, lambda frames: [*frames[:number], *frames[number + 1 :]], chunk, whole=number)


@given(PAYLOADS, st.integers(1, 200), st.data())
def test_the_rest_is_cut_off(payloads: list[bytes], chunk: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(payloads)))

    def tamper(frames: list[bytes]) -> list[bytes]:
        return [*frames[:number], frames[number][: data.draw(st.integers(0, len(frames[number]) - 1))]]

    check(payloads, tamper, chunk, whole=number)


@given(PAYLOADS, st.integers(1, 200), st.binary(min_size=1, max_size=80), st.data())
def test_something_is_put_between(payloads: list[bytes], chunk: int, junk: bytes, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(payloads)))
    is_framed = data.draw(st.booleans())
    is_close = data.draw(st.booleans())
    between = tcp_frame(junk, is_close=is_close) if is_framed else junk

    check(payloads, lambda frames: [*frames[:number], between, *frames[number:]], chunk, whole=number)


@given(PAYLOADS, st.integers(1, 200), st.data())
def test_what_the_server_said_comes_back_to_it(payloads: list[bytes], chunk: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(payloads)))

    async def reflected() -> tuple[list[bytes], tuple[int, str] | None]:
        link = Link()
        frames = [tcp_frame(link.tunnel.seal(payload)) for payload in payloads]
        for payload in payloads:
            link.server.send(payload)
        link.hear(b"".join(frames[:number]) + link.wire.written, chunk)
        return link.recorder.payloads, link.recorder.end

    assert asyncio.run(reflected()) == (payloads[:number], (VANISHED, ""))


@given(PAYLOADS, st.integers(1, 200))
def test_a_whole_link_that_was_recorded_cannot_be_played_to_another(payloads: list[bytes], chunk: int) -> None:
    async def replayed() -> tuple[list[bytes], tuple[int, str] | None]:
        recorded, link = Link(), Link()
        frames = [tcp_frame(recorded.tunnel.seal(payload)) for payload in payloads]
        link.hear(b"".join(frames), chunk)
        return link.recorder.payloads, link.recorder.end

    assert asyncio.run(replayed()) == ([], (VANISHED, ""))
