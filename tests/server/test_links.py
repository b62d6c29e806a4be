"""Links that are encrypted, seen from the session: its flags, its authenticator, and what an attacker cannot end."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Auth, SessionFlags, Tcp, Tls, WebSocket
from holdfast.core.errors import Invalid
from holdfast.identity.port import Approach, Identity
from holdfast.sync import connect as connect_blocking
from tests.server.certificates import Certificates
from tests.server.world import NoJitter, World, chat, server_side, until_resumed
from tests.transports.raw import close_body, tcp_frame


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def tls(certificates: Certificates) -> Tls:
    return Tls(certificates.certificate, certificates.key)


async def test_an_operator_sees_which_sessions_are_encrypted(
    world: World, certificates: Certificates, tls: Tls
) -> None:
    safe = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)])
    plain = await world.serve(chat(), listen=[WebSocket(port=0), Tcp(port=0)])

    ada = await world.connect(safe, transport="tcp", ssl=certificates.trust)
    bob = await world.connect(plain, transport="tcp")

    assert safe.operate.sessions.get(ada.id).flags == ["encryption"]
    assert plain.operate.sessions.get(bob.id).flags == []


async def test_an_authenticator_is_told_whether_the_link_is_encrypted(
    world: World, certificates: Certificates, tls: Tls
) -> None:
    told: list[Approach] = []

    class Recording:
        scheme = "recording"

        def authenticate(self, credential: str, approach: Approach) -> Identity:
            told.append(approach)
            return Identity(credential)

    safe = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)], auth=[Recording()])
    plain = await world.serve(chat(), auth=[Recording()])

    await world.connect(safe, transport="tcp", ssl=certificates.trust, auth=Auth("recording", "ada"))
    await world.connect(plain, auth=Auth("recording", "bob"))

    assert [(approach.transport, approach.is_encrypted) for approach in told] == [("tcp", True), ("websocket", False)]


async def test_a_client_that_comes_back_is_encrypted_again(world: World, certificates: Certificates, tls: Tls) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)])
    session = await world.connect(server, transport="tcp", ssl=certificates.trust)

    outcome = await until_resumed(session, session.cut)

    assert outcome.kind == "resumed"
    assert server_side(server, session).flags is SessionFlags.ENCRYPTION


# Options that have no effect, or no longer exist


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"server_key": "key"}, "tcps://"),
        ({"dialect": "holdfast.v1.json"}, "`codec`"),
        ({"compression": True}, "permessage-deflate"),
        ({"resume": "state"}, "saved="),
    ],
)
def test_options_that_are_gone_say_what_to_use_instead(options: dict[str, Any], advice: str) -> None:
    for connect in (holdfast.connect, connect_blocking):
        with pytest.raises(TypeError, match=f"was removed.*{advice}"):
            connect("tcp://127.0.0.1:1", **options)


def test_an_ssl_context_beside_a_dial_of_ones_own_is_refused(certificates: Certificates) -> None:
    async def own(*_: Any) -> Any:
        raise AssertionError("nothing is dialed")

    with pytest.raises(Invalid, match="of your own"):
        holdfast.connect("tcps://127.0.0.1:1", ssl=certificates.trust, dial=own)


# An attacker between client and server


LIES = [
    tcp_frame(close_body(1008), is_close=True),
    tcp_frame(close_body(1002), is_close=True),
    b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
]


class Relay:
    """Passes links on to a server, or answers in its place, as often as it is told to."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.lies: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.lies:
            await reader.read(1)
            writer.write(self.lies.pop())
        else:
            there, back = await asyncio.open_connection(*self._target)
            await asyncio.gather(pass_on(reader, back), pass_on(there, writer))
        writer.close()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@pytest.mark.parametrize(("transport", "scheme"), [("websocket", "wss"), ("tcp", "tcps")])
async def test_what_anybody_on_the_way_can_say_does_not_end_a_session_that_comes_back(
    world: World, certificates: Certificates, tls: Tls, transport: str, scheme: str
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, tls=tls), Tcp(port=0, tls=tls)])
    relay = Relay(server.addresses[transport])
    async with await asyncio.start_server(relay.serve, "127.0.0.1", 0) as listener:
        url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with holdfast.connect(url, ssl=certificates.trust, random=NoJitter()) as session:
            relay.lies = list(LIES)

            outcome = await until_resumed(session, session.cut)

            assert outcome.kind == "resumed"
            assert relay.lies == []
            assert session.drops == 1
