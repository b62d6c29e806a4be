"""A peer made of a bare socket: it can say anything, as slowly as it likes, and need not listen."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from typing import Self

from tests.deadlines import DEADLINE_S

MASK = b"\x01\x02\x03\x04"
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA


class RawPeer:
    """One connection, read and written by the byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, host: str, port: int, context: ssl.SSLContext | None = None) -> Self:
        # The smallest limit: what is not read stays in the kernel.
        return cls(*await asyncio.open_connection(host, port, limit=1, ssl=context))

    @property
    def name(self) -> str:
        """Its own address, as the other end sees it."""
        host, port = self._writer.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def write_all(self, data: bytes) -> None:
        """Until the kernel has taken all of it, which may need the other end to read."""
        self._writer.write(data)
        async with asyncio.timeout(DEADLINE_S):
            await self._writer.drain()

    async def write_slowly(self, data: bytes) -> None:
        """One byte per segment."""
        for index in range(len(data)):
            self._writer.write(data[index : index + 1])
            await self._writer.drain()
            await asyncio.sleep(0)

    async def read(self, size: int) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            return await self._reader.readexactly(size)

    async def read_rest(self) -> bytes:
        """Everything until the other end hangs up, politely or not."""
        rest = bytearray()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(DEADLINE_S):
                while data := await self._reader.read(65536):
                    rest += data
        return bytes(rest)

    async def read_head(self) -> bytes:
        """An HTTP head."""
        head = bytearray()
        while not head.endswith(b"\r\n\r\n"):
            head += await self.read(1)
        return bytes(head)

    async def read_websocket_frame(self, *, is_deflated: bool = False) -> tuple[int, bytes]:
        """An opcode and its payload, from a server."""
        first, size = await self.read(2)
        assert first & 0xF0 == (0xC0 if is_deflated else 0x80), "final, and deflated or not"
        if size == 126:
            size = int.from_bytes(await self.read(2), "big")
        return first & 0x0F, await self.read(size)

    async def read_tcp_frame(self) -> tuple[bool, bytes]:
        """Whether it is a close frame, and its body."""
        head = int.from_bytes(await self.read(4), "big")
        return bool(head >> 31), await self.read(head & 0x7FFF_FFFF)

    def hang_up(self) -> None:
        """End the stream in order, as far as TCP is concerned."""
        self._writer.close()

    def half_close(self) -> None:
        """Say nothing more, and go on listening, or not."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Go at once: the other end gets a TCP reset."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    def abandon(self) -> None:
        self._writer.transport.abort()


@contextlib.asynccontextmanager
async def raw_server(answer: bytes, *, hangs_up: bool = True) -> AsyncIterator[int]:
    """A port where every first word gets the same answer."""
    peers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer)
        await reader.read(1)
        writer.write(answer)
        if hangs_up:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in peers:
            writer.transport.abort()


def websocket_frame(opcode: int, payload: bytes = b"", *, first_byte: int | None = None, masked: bool = True) -> bytes:
    """A frame as a client sends it; a first byte of its own can set or miss any bit."""
    head = bytes([0x80 | opcode if first_byte is None else first_byte])
    mask_bit = 0x80 if masked else 0
    if len(payload) < 126:
        head += bytes([mask_bit | len(payload)])
    elif len(payload) < 65536:
        head += bytes([mask_bit | 126]) + len(payload).to_bytes(2, "big")
    else:
        head += bytes([mask_bit | 127]) + len(payload).to_bytes(8, "big")
    if not masked:
        return head + payload
    return head + MASK + bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload))


def fragment(opcode: int, payload: bytes = b"", *, is_last: bool = False) -> bytes:
    """A piece of a message; all but the first have the opcode 0."""
    return websocket_frame(opcode, payload, first_byte=opcode | (0x80 if is_last else 0))


def tcp_frame(body: bytes, *, is_close: bool = False) -> bytes:
    return (len(body) | (is_close << 31)).to_bytes(4, "big") + body


def close_body(code: int, reason: bytes = b"") -> bytes:
    return code.to_bytes(2, "big") + reason
