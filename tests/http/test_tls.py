"""The API over TLS."""

import asyncio
from pathlib import Path

import httpx
import pytest

from holdfast import Tls
from holdfast.http.api import HttpApi, HttpLimits
from holdfast.http.app import App
from holdfast.http.serving import HttpServer
from tests.deadlines import DEADLINE_S
from tests.http.world import World
from tests.server.certificates import Certificates
from tests.transports.harness import client_context, server_context


async def test_with_a_certificate_the_api_speaks_https(world: World, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    api = HttpApi(port=0, tls=Tls(certificates.certificate, certificates.key))
    host, port = await api.open(world.backend.operations)

    try:
        async with httpx.AsyncClient(verify=certificates.trust, trust_env=False) as client:
            answer = await client.get(f"https://{host}:{port}/livez")
            docs = await client.get(f"https://{host}:{port}/docs")
    finally:
        await api.close()

    assert api.scheme == "https"
    assert answer.status_code == 200
    assert f"curl https://{host}:{port}/livez" in docs.text


async def test_without_one_it_speaks_http() -> None:
    assert HttpApi(port=0).scheme == "http"


def test_a_context_instead_of_a_certificate_is_refused_with_what_to_use() -> None:
    with pytest.raises(TypeError, match=r"`ssl` was removed: .*HttpApi\(tls="):
        HttpApi(port=0, ssl=server_context())  # type: ignore[call-arg]  # that it is refused is the claim


async def test_who_does_not_speak_tls_gets_no_answer(world: World) -> None:
    server = HttpServer(App(world.backend.operations), port=0, ssl=server_context())
    await server.start()

    try:
        host, port = server.address
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:  # noqa: S501 - there is none to verify
            with pytest.raises(httpx.TransportError):
                await client.get(f"http://{host}:{port}/livez")
    finally:
        await server.stop()


async def test_a_handshake_that_takes_too_long_is_cut_off(world: World) -> None:
    server = HttpServer(App(world.backend.operations, (), HttpLimits(request_s=0.2)), port=0, ssl=server_context())
    await server.start()

    try:
        reader, writer = await asyncio.open_connection(*server.address)
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b""
        writer.close()
    finally:
        await server.stop()


async def test_a_client_that_goes_on_with_an_open_connection_is_answered(world: World) -> None:
    server = HttpServer(App(world.backend.operations), port=0, ssl=server_context())
    await server.start()

    try:
        reader, writer = await asyncio.open_connection(*server.address, ssl=client_context())
        for _ in range(2):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(DEADLINE_S):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
        writer.close()
    finally:
        await server.stop()
