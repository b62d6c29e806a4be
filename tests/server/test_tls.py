"""TLS at every door, and certificates that are renewed while players play."""

import asyncio
import logging
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import holdfast
from holdfast import HttpApi, Invalid, Limits, Server, Tcp, Tls, WebSocket
from holdfast.sync import connect
from holdfast.transports.port import DialError
from tests.deadlines import DEADLINE_S
from tests.server.certificates import Certificates
from tests.server.world import Say, World, chat, server_side, texts_until, url_of

# So often that a test need not wait for it.
QUICK = replace(Limits(), certificate_check_s=0.01)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def tls(certificates: Certificates) -> Tls:
    return Tls(certificates.certificate, certificates.key)


async def seen(server: Server, certificates: Certificates, transport: str = "websocket") -> bytes:
    """The certificate that a new connection sees."""
    host, port = server.addresses[transport]
    async with asyncio.timeout(DEADLINE_S):
        _, writer = await asyncio.open_connection(host, port, ssl=certificates.trust)
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(("transport", "scheme"), [("websocket", "wss"), ("tcp", "tcps")])
async def test_players_come_in_encrypted_by_every_listener(
    world: World, certificates: Certificates, tls: Tls, transport: str, scheme: str
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)])

    session = await world.connect(server, transport=transport, ssl=certificates.trust)
    room = await session.join_or_create("chat")
    await room.send(Say("hello"))

    assert url_of(server, transport).startswith(f"{scheme}://127.0.0.1:")
    assert server.url.startswith("wss://")
    assert await texts_until(room, "hello") == ["hello"]
    connection = server_side(server, session).connection
    assert connection is not None
    assert connection.is_encrypted


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_who_does_not_believe_the_certificate_does_not_connect(world: World, tls: Tls, transport: str) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)])

    with pytest.raises(DialError, match="certificate"):
        await holdfast.connect(url_of(server, transport))


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_who_does_not_speak_tls_gets_no_answer(world: World, tls: Tls, transport: str) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)])

    with pytest.raises(DialError):
        await holdfast.connect(url_of(server, transport).replace("s://", "://"))


async def test_a_client_without_an_event_loop_is_encrypted_too(
    world: World, certificates: Certificates, tls: Tls
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls)])

    def play() -> str:
        with connect(server.url, ssl=certificates.trust) as session:
            return session.id

    assert await asyncio.to_thread(play)


async def test_a_context_for_an_address_without_tls_is_refused(certificates: Certificates) -> None:
    with pytest.raises(Invalid, match="nothing would be encrypted"):
        holdfast.connect("ws://127.0.0.1:7777", ssl=certificates.trust)


CBC = ["ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES256-SHA384", "ECDHE-RSA-AES128-SHA", "AES128-SHA256", "AES256-SHA"]
CBC += [name.replace("RSA", "ECDSA") for name in CBC[:3]]


@pytest.mark.parametrize(
    ("ciphers", "is_spoken"),
    [
        (":".join(CBC), False),
        ("AES128-GCM-SHA256:AES256-GCM-SHA384", False),
        ("ECDHE+AESGCM", True),
        ("ECDHE+CHACHA20", True),
    ],
    ids=["CBC", "no forward secrecy", "AES-GCM", "ChaCha20"],
)
async def test_of_tls_1_2_only_suites_that_authenticate_what_they_encrypt_are_spoken(
    world: World, certificates: Certificates, tls: Tls, ciphers: str, *, is_spoken: bool
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls)])
    context = certificates.trust
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    dialing = asyncio.open_connection(*server.addresses["websocket"], ssl=context, server_hostname="localhost")

    if is_spoken:
        _, writer = await dialing
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        writer.transport.abort()
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await dialing


def test_old_versions_of_tls_are_not_spoken(tls: Tls) -> None:
    assert tls.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert tls.context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_a_renewed_certificate_is_for_new_connections_and_open_ones_go_on(
    world: World, certificates: Certificates, tls: Tls, transport: str
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)])
    session = await world.connect(server, transport=transport, ssl=certificates.trust)
    room = await session.join_or_create("chat")
    old = certificates.shown()
    assert await seen(server, certificates, transport) == old

    certificates.renew()
    server.reload_certificates()

    assert await seen(server, certificates, transport) == certificates.shown() != old
    await room.send(Say("still here"))
    assert await texts_until(room, "still here") == ["still here"]
    assert session.drops == 0


async def test_a_certificate_that_changed_is_noticed_without_a_word(
    world: World, certificates: Certificates, tls: Tls
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls)], limits=QUICK)

    certificates.renew()

    async with asyncio.timeout(DEADLINE_S):
        while await seen(server, certificates) != certificates.shown():
            pass


@pytest.mark.parametrize("limits", [Limits(), QUICK])
async def test_a_certificate_that_only_the_http_api_has_is_renewed_too(
    world: World, certificates: Certificates, tls: Tls, limits: Limits
) -> None:
    server = await world.serve(chat(), listen=[], http=HttpApi(port=0, tls=tls), limits=limits)
    old = certificates.shown()
    assert await seen(server, certificates, "http") == old

    certificates.renew()
    if limits is not QUICK:
        server.reload_certificates()

    async with asyncio.timeout(DEADLINE_S):
        while await seen(server, certificates, "http") != certificates.shown():
            pass


def test_a_certificate_of_ports_and_api_is_watched_once(tls: Tls) -> None:
    server = Server([chat()], listen=[WebSocket(tls=tls), Tcp(tls=tls)], http=HttpApi(tls=tls))

    assert server.listeners.certificates == [tls]


async def test_a_certificate_that_was_renewed_before_the_start_is_the_one_that_counts(
    world: World, certificates: Certificates, tls: Tls
) -> None:
    certificates.renew()

    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls)])

    assert await seen(server, certificates) == certificates.shown()


@pytest.mark.parametrize("fault", ["broken", "another's", "gone"])
async def test_a_certificate_that_cannot_be_used_is_logged_and_the_old_one_stays(
    world: World, certificates: Certificates, tls: Tls, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls)])
    old, old_key = certificates.shown(), certificates.key.read_bytes()
    match fault:
        case "broken":
            certificates.certificate.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        case "another's":
            certificates.renew()
            certificates.key.write_bytes(old_key)
        case _:
            certificates.key.unlink()

    server.reload_certificates()

    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(certificates.certificate) in caplog.text
    assert await seen(server, certificates) == old

    certificates.renew()
    server.reload_certificates()
    assert await seen(server, certificates) == certificates.shown()


def test_a_certificate_and_a_key_that_do_not_fit_are_refused_at_the_start(certificates: Certificates) -> None:
    other = trustme.CA().issue_cert("localhost").private_key_pem.bytes()
    certificates.key.write_bytes(other)

    with pytest.raises(ValueError, match=r"cert\.pem .*key\.pem .*they do not match"):
        Tls(certificates.certificate, certificates.key)


def test_files_that_are_not_there_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        Tls(tmp_path / "cert.pem", tmp_path / "key.pem")


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(certificates: Certificates) -> None:
    key = load_pem_private_key(certificates.key.read_bytes(), password=None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password"))
    certificates.key.write_bytes(encrypted)

    with pytest.raises(ValueError, match="password"):
        Tls(certificates.certificate, certificates.key)


def test_a_certificate_shows_its_files_and_nothing_of_the_key(tls: Tls, certificates: Certificates) -> None:
    assert repr(tls) == f"Tls({str(certificates.certificate)!r}, {str(certificates.key)!r})"
