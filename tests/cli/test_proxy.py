"""The proxy breaks links where it says it does."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from holdfast.cli.demo.proxy import Cut, Proxy

PAYLOAD = bytes(range(256))


@asynccontextmanager
async def echoing() -> AsyncIterator[Proxy]:
    """A proxy before a server that sends back what it gets."""

    async def echo(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while chunk := await reader.read(4096):
                writer.write(chunk)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Proxy(*server.sockets[0].getsockname(), random=Random(1), silent_s=0.05) as proxy:
        yield proxy


@asynccontextmanager
async def linked(proxy: Proxy) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    """A link through the proxy that has carried something."""
    reader, writer = await asyncio.open_connection(*proxy.address)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    try:
        yield reader, writer
    finally:
        writer.close()


async def rest_of(reader: StreamReader) -> bytes:
    """What still comes before the end, however that comes."""
    received = b""
    try:
        while chunk := await reader.read(4096):
            received += chunk
    except ConnectionError:
        pass
    return received


async def test_bytes_pass_unchanged_both_ways() -> None:
    async with echoing() as proxy, linked(proxy) as (reader, writer):
        writer.write(PAYLOAD)

        assert await reader.readexactly(len(PAYLOAD)) == PAYLOAD
        assert proxy.cuts == 0


async def test_a_reset_is_felt_at_once() -> None:
    async with echoing() as proxy, linked(proxy) as (reader, _):
        await proxy.cut(Cut.RESET)

        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert proxy.cuts == 1


async def test_a_torn_link_delivers_a_part_of_what_was_underway() -> None:
    arrived: set[int] = set()

    async with echoing() as proxy:
        for _ in range(10):
            async with linked(proxy) as (reader, writer):
                cutting = asyncio.create_task(proxy.cut(Cut.TORN))
                await asyncio.sleep(0)
                writer.write(PAYLOAD)
                part = await rest_of(reader)
                await cutting
                assert PAYLOAD.startswith(part)
                arrived.add(len(part))

    assert proxy.cuts == 10
    assert max(arrived) < len(PAYLOAD)


async def test_a_silent_link_swallows_everything_before_it_ends() -> None:
    async with echoing() as proxy, linked(proxy) as (reader, writer):
        cutting = asyncio.create_task(proxy.cut(Cut.SILENT))
        await asyncio.sleep(0)
        writer.write(PAYLOAD)

        assert await rest_of(reader) == b""
        await cutting
        assert proxy.cuts == 1


async def test_a_cut_waits_for_a_link_to_cut() -> None:
    async with echoing() as proxy:
        cutting = asyncio.create_task(proxy.cut(Cut.RESET))
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(*proxy.address)

        assert await rest_of(reader) == b""
        await cutting
        writer.close()
        assert proxy.cuts == 1


async def test_a_link_that_its_own_ends_close_is_not_a_cut() -> None:
    async with echoing() as proxy:
        async with linked(proxy) as (reader, writer):
            writer.write_eof()
            assert await rest_of(reader) == b""

        assert proxy.cuts == 0


async def test_a_pulled_plug_refuses_everybody_until_it_is_back() -> None:
    async with echoing() as proxy:
        async with linked(proxy) as (reader, _):
            proxy.pull()
            assert await rest_of(reader) == b""
        reader, writer = await asyncio.open_connection(*proxy.address)
        assert await rest_of(reader) == b""
        writer.close()
        await proxy.has_refused(1)

        proxy.plug()

        async with linked(proxy):
            pass
