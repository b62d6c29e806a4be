"""Who may come in and who may listen in, as `holdfast serve` is told it and says it."""

import asyncio
import json
import re
import signal
import ssl
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.main import main
from tests.cases import every_case
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import ANY_PORTS, end_of, holdfast_process, read_until, result_of
from tests.server.certificates import Certificates

GAME = """
from holdfast import PlayerData, Room


class Hall(Room[PlayerData]): ...
"""
EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is the question
KEY = "0123456789abcdef"


@pytest.fixture
def game(tmp_path: Path) -> Path:
    file = tmp_path / "game.py"
    file.write_text(GAME)
    return file


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def tls_options(certificates: Certificates) -> tuple[str, ...]:
    return ("--tls-cert", str(certificates.certificate), "--tls-key", str(certificates.key))


def fact(announcement: str, name: str) -> str:
    """What stands behind this word; "" if it is not there."""
    found = re.search(rf"^  {name} +(.*)$", announcement, re.MULTILINE)
    return found[1] if found else ""


async def announced(game: Path, *options: str) -> str:
    async with holdfast_process("serve", str(game), *ANY_PORTS, *options) as process:
        return await read_until(process, "Press Ctrl-C to stop")


async def test_an_unencrypted_listener_is_refused_with_the_options_that_help(game: Path) -> None:
    result = await result_of("serve", str(game), *ANY_PORTS, "--host", EVERYWHERE)

    assert result.exit_code == 1
    assert "would not be encrypted" in result.stderr
    for option in ("--tls-cert", "--tls-key", "--host 127.0.0.1", "--trusted-proxy", "--insecure"):
        assert option in result.stderr


async def test_an_unencrypted_listener_that_was_wanted_says_so_and_asks_for_origins(game: Path) -> None:
    announcement = await announced(game, "--host", EVERYWHERE, "--insecure")

    assert fact(announcement, "websocket").startswith(f"ws://{EVERYWHERE}:")
    assert "insecure: unencrypted traffic can be read" in announcement
    assert "allow only your game's with --origin" in fact(announcement, "origins")


async def test_at_home_nothing_of_this_is_said(game: Path) -> None:
    announcement = await announced(game)

    assert not re.search("origin|insecure|tls|prox", announcement.replace(str(game), ""))


async def test_origins_and_proxies_are_announced(game: Path) -> None:
    announcement = await announced(
        game,
        *("--origin", "https://game.example", "--origin", "https://*.game.example"),
        *("--trusted-proxy", "10.0.0.7", "--trusted-proxy", "fd00::/8", "--proxy-protocol"),
        *("--full-share", "198.51.100.0/24", "--full-share", "::1"),
    )

    assert fact(announcement, "origins") == "https://game.example, https://*.game.example"
    assert fact(announcement, "proxies") == "10.0.0.7, fd00::/8, with the PROXY protocol"
    assert fact(announcement, "shares") == "no limit per address for 198.51.100.0/24, ::1"


@every_case(
    ("options", "words"),
    [
        (("--origin", "game.example"), "an origin is a scheme"),
        (("--trusted-proxy", "proxy.example"), "a trusted proxy is an address or a network"),
        (("--proxy-protocol",), "name them"),
        (("--full-share", "school.example"), "is neither an address nor a network"),
        (("--tls-cert", "cert.pem"), "give both --tls-cert and --tls-key"),
        (("--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"), "No such file"),
    ],
)
async def test_an_option_that_makes_no_sense_is_refused(game: Path, options: tuple[str, ...], words: str) -> None:
    result = await result_of("serve", str(game), *ANY_PORTS, *options)

    assert result.exit_code in {1, 2}
    assert words in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_certificate_opens_encrypted_listeners_and_sighup_has_it_read_again(
    game: Path, certificates: Certificates
) -> None:
    async with holdfast_process("serve", str(game), *ANY_PORTS, *tls_options(certificates)) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        url = fact(announcement, "websocket")
        assert url.startswith("wss://")
        assert fact(announcement, "tcp").startswith("tcps://")
        assert fact(announcement, "http").startswith("http://"), "at home it stays as it is"
        assert fact(announcement, "tls").startswith(str(certificates.certificate))

        async with holdfast.connect(url, ssl=certificates.trust) as session:
            certificates.renew()
            process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(DEADLINE_S):
                while await seen(url, certificates.trust) != certificates.shown():
                    pass
            assert session.connected

        assert (await end_of(process, by=signal.SIGINT)).exit_code == 0


async def seen(url: str, trust: ssl.SSLContext) -> bytes:
    """The certificate that a new connection sees."""
    host, _, port = url.removeprefix("wss://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=trust)
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.transport.abort()


async def test_an_api_that_listens_elsewhere_is_encrypted_too(game: Path, certificates: Certificates) -> None:
    async with holdfast_process(
        "serve",
        str(game),
        *(*ANY_PORTS, "--http-host", EVERYWHERE),
        *tls_options(certificates),
        environment={"HOLDFAST_API_KEY": KEY},
    ) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        found = re.search(rf"https://{re.escape(EVERYWHERE)}:(\d+)/docs", announcement)
        assert found is not None

        request = Request(f"https://127.0.0.1:{found[1]}/v1/rooms", headers={"Authorization": f"Bearer {KEY}"})
        answer = await asyncio.to_thread(urlopen, request, timeout=30, context=certificates.trust)
        assert json.loads(answer.read())["rooms"] == []


@every_case(
    "arguments",
    [["key", "new", "server.key"], ["serve", "game.py", "--tcp-key", "x"], ["serve", "game.py", "--tcp-plain"]],
)
def test_commands_and_options_that_are_gone_say_what_to_use_instead(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert "was removed" in result.output
    assert "tcps://" in result.output


async def test_enet_is_served_when_a_port_for_it_is_named(game: Path) -> None:
    async with holdfast_process("serve", str(game), *ANY_PORTS, "--enet-port", "0") as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")

        async with holdfast.connect(fact(announcement, "enet")) as session:
            assert session.transport == "enet"


async def test_udp_is_beside_the_others_when_a_port_for_it_is_named(game: Path) -> None:
    async with holdfast_process("serve", str(game), *ANY_PORTS, "--udp-port", "0") as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")

        assert "for unreliable messages of these" in fact(announcement, "udp")
        for name in ("websocket", "tcp"):
            async with holdfast.connect(fact(announcement, name)) as session, asyncio.timeout(DEADLINE_S):
                while session.latest_transport != "udp":  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(0.02)
                assert session.transport == name


async def test_enet_on_a_public_address_is_refused_though_there_is_a_certificate(
    game: Path, certificates: Certificates
) -> None:
    result = await result_of(
        "serve", str(game), *ANY_PORTS, "--host", EVERYWHERE, "--enet-port", "0", *tls_options(certificates)
    )

    assert result.exit_code == 1
    assert "Enet connections are not encrypted" in result.stderr
    assert "--insecure" in result.stderr
