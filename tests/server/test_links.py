"""Links that are encrypted or compressed, seen from the session: its flags, its authenticator, its dialect."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Auth, Server, SessionEnded, SessionFlags
from holdfast.core.errors import Invalid
from holdfast.identity.port import Approach, Identity
from holdfast.server.admission.doors import DIALECTS
from holdfast.server.operate.operator import Operator
from holdfast.sync import connect as connect_blocking
from holdfast.transports import tcp
from holdfast.transports.compression import Offer
from holdfast.transports.keys import ServerKey
from holdfast.transports.port import DialError, TransportLimits
from tests.saved_sessions import storage_of
from tests.server.world import Chat, NoJitter, Say, World, chat, server_side, texts_until, until_resumed, url_of
from tests.transports.raw import close_body, tcp_frame
from tests.transports.recorder import Recorder

KEY = ServerKey.new()
DIALECT_NAMES = [dialect.name for dialect in DIALECTS]


async def encrypted(world: World, kind: type[Chat], **options: Any) -> Server:
    return await world.serve(kind, tcp_port=0, tcp_key=KEY, **options)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize("compression", [False, True])
async def test_a_game_is_played_over_an_encrypted_link(world: World, dialect: str, compression: bool) -> None:
    server = await encrypted(world, chat(), compression=compression)
    session = await world.connect(
        server, transport="tcp", server_key=server.tcp_key, dialect=dialect, compression=compression
    )
    room = await session.join_or_create("chat")

    for number in range(50):
        await room.send(Say(f"{number}: " + "the same words " * 20))

    assert len(await texts_until(room, "49: " + "the same words " * 20)) == 50


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
async def test_a_game_is_played_over_a_compressed_websocket(world: World, dialect: str) -> None:
    server = await world.serve(chat(), compression=True)
    session = await world.connect(server, compression=True, dialect=dialect)
    room = await session.join_or_create("chat")

    for number in range(50):
        await room.send(Say(f"{number}: " + "the same words " * 20))

    assert len(await texts_until(room, "49: " + "the same words " * 20)) == 50
    assert server_side(server, session).flags is SessionFlags.COMPRESSION


async def test_the_flags_of_a_session_are_those_of_its_connection(world: World) -> None:
    server = await encrypted(world, chat(), compression=True)
    first = await world.connect(server, transport="tcp", server_key=server.tcp_key, compression=True)
    session = server_side(server, first)
    seen = [session.flags]

    second = await world.connect(server, saved=storage_of(first.protocol.save()))
    seen.append(session.flags)
    third = await world.connect(server, saved=storage_of(second.protocol.save()), compression=True)
    seen.append(session.flags)
    await world.connect(server, transport="tcp", server_key=server.tcp_key, saved=storage_of(third.protocol.save()))
    seen.append(session.flags)

    assert seen == [
        SessionFlags.ENCRYPTION | SessionFlags.COMPRESSION,
        SessionFlags.NONE,
        SessionFlags.COMPRESSION,
        SessionFlags.ENCRYPTION,
    ]


async def test_an_operator_sees_them(world: World) -> None:
    server = await encrypted(world, chat(), compression=True)
    secret = await world.connect(server, transport="tcp", server_key=server.tcp_key, compression=True)
    plain = await world.connect(server)
    operator = Operator(server.node)

    assert operator.get_session(secret.id).flags == ["encryption", "compression"]
    assert operator.get_session(plain.id).flags == []


async def test_an_authenticator_is_told_whether_the_way_is_safe(world: World) -> None:
    told: list[Approach] = []

    class Door:
        scheme = "door"

        def authenticate(self, credential: str, approach: Approach) -> Identity:
            told.append(approach)
            return Identity(credential)

    server = await encrypted(world, chat(), auth=[Door()])

    await world.connect(server, transport="tcp", server_key=server.tcp_key, auth=Auth("door", "ada"))
    await world.connect(server, auth=Auth("door", "bob"))

    assert [(approach.transport, approach.is_encrypted) for approach in told] == [("tcp", True), ("websocket", False)]


async def test_a_client_that_comes_back_is_encrypted_again(world: World) -> None:
    server = await encrypted(world, chat())
    session = await world.connect(server, transport="tcp", server_key=server.tcp_key)

    outcome = await until_resumed(session, session.cut)

    assert outcome.kind == "resumed"
    assert server_side(server, session).flags is SessionFlags.ENCRYPTION


# Who does not get in


async def test_a_client_with_another_key_says_nothing_and_does_not_try_again(world: World) -> None:
    server = await encrypted(world, chat())

    with pytest.raises(DialError, match="key that is pinned"):
        await world.connect(server, transport="tcp", server_key=ServerKey.new().public, give_up_s=1000.0)

    assert len(server.sessions) == 0


async def test_a_server_that_loses_its_key_loses_its_clients_when_they_give_up(world: World) -> None:
    server = await encrypted(world, chat())
    session = await world.connect(server, transport="tcp", server_key=server.tcp_key, give_up_s=2.0)
    host, port = server.addresses["tcp"]
    await server.stop()

    await world.serve(chat(), port=None, host=host, tcp_port=port, tcp_key=ServerKey.new())

    with pytest.raises(SessionEnded, match="key that is pinned"):
        await session.search("chat")


async def test_plain_tcp_is_refused_beside_a_key_unless_it_is_allowed(world: World) -> None:
    strict = await encrypted(world, chat())
    lenient = await encrypted(world, chat(), tcp_plain=True)

    with pytest.raises(DialError, match="encrypted here"):
        await world.connect(strict, transport="tcp")
    session = await world.connect(lenient, transport="tcp")

    assert server_side(lenient, session).flags is SessionFlags.NONE


async def test_clients_move_from_an_old_key_to_a_new_one(world: World, tmp_path: Path) -> None:
    new = ServerKey.new()
    new.write(tmp_path / "new.key")
    server = await world.serve(chat(), tcp_port=0, tcp_key=[tmp_path / "new.key", KEY])

    for key in (KEY.public, new.public):
        await world.connect(server, transport="tcp", server_key=key)

    assert server.tcp_key == new.public
    assert len(server.sessions) == 2


# Compression that only one of them wants


@pytest.mark.parametrize(("server_wants", "client_wants"), [(True, False), (False, True)])
async def test_one_that_does_not_compress_is_no_obstacle(world: World, server_wants: bool, client_wants: bool) -> None:
    server = await world.serve(chat(), compression=server_wants)
    session = await world.connect(server, compression=client_wants)
    room = await session.join_or_create("chat")

    await room.send(Say("hello"))

    assert await texts_until(room, "hello") == ["hello"]
    assert server_side(server, session).flags is SessionFlags.NONE


@pytest.mark.parametrize("garbage", [b"\x01\xff\xff\xff\xff", b"\x07", b"", b"\x01" + bytes(100)])
async def test_a_stranger_with_a_broken_stream_harms_nobody(world: World, garbage: bytes) -> None:
    server = await world.serve(chat(), tcp_port=0, compression=True)
    session = await world.connect(server, compression=True)
    room = await session.join_or_create("chat")
    offer = Offer(DIALECTS, TransportLimits.of(holdfast.Limits()))
    stranger = Recorder()
    await tcp.dial(stranger, url_of(server, "tcp"), dialects=offer.dialects[:1], limits=offer.limits)

    stranger.link.send(garbage)

    code, _ = await stranger.loss()
    assert code == 1002
    await room.send(Say("unharmed"))
    assert await texts_until(room, "unharmed") == ["unharmed"]
    assert server.counters.internal_errors == 0


# Wishes that cannot be had


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"url": "ws://127.0.0.1:1", "server_key": KEY.public}, "certificate"),
        ({"url": "tcp://127.0.0.1:1", "server_key": "no key"}, "holdfast key show"),
        ({"url": "tcp://127.0.0.1:1", "server_key": KEY.public, "dial": "own"}, "of your own"),
        ({"url": "tcp://127.0.0.1:1", "compression": True, "dial": "own"}, "of your own"),
    ],
)
async def test_a_wish_that_cannot_be_had_is_not_left_out_silently(options: dict[str, Any], hint: str) -> None:
    async def own(*_: Any) -> Any:
        raise AssertionError("nothing is dialed")

    if "dial" in options:
        options = {**options, "dial": own}

    with pytest.raises(Invalid, match=hint):
        holdfast.connect(**options)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"tcp_plain": True}, "tcp_key"),
        ({"tcp_key": []}, "one key, or 2"),
        ({"tcp_key": [KEY, KEY, KEY]}, "one key, or 2"),
    ],
)
def test_a_server_with_settings_that_contradict_each_other_is_not_made(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        Server([chat()], **options)


async def test_the_blocking_client_can_do_it_too(world: World) -> None:
    server = await encrypted(world, chat(), compression=True)

    def play() -> str:
        with connect_blocking(url_of(server, "tcp"), server_key=server.tcp_key, compression=True) as session:
            return session.player_id

    assert (await asyncio.to_thread(play)).startswith("guest-")


# Somebody on the way.

LIES = {
    "another key": tcp_frame(close_body(1008), is_close=True),
    "no key": tcp_frame(close_body(1003), is_close=True),
    "broken": tcp_frame(close_body(1002), is_close=True),
    "an impostor": tcp_frame(bytes(range(48))),
}


class Relay:
    """Passes links on to a server, or answers in its place, as often as it is told to."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.lies: list[bytes] = []
        self.lied = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.lies:
            await reader.read(1)
            writer.write(self.lies.pop())
            self.lied += 1
            await reader.read()
        else:
            there, back = await asyncio.open_connection(*self._target)
            await asyncio.gather(pass_on(reader, back), pass_on(there, writer))
        writer.close()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_what_anybody_on_the_way_can_say_does_not_end_a_session_that_comes_back(world: World, lie: bytes) -> None:
    server = await encrypted(world, chat())
    relay = Relay(server.addresses["tcp"])
    async with await asyncio.start_server(relay.serve, "127.0.0.1", 0) as door:
        port = door.sockets[0].getsockname()[1]
        async with holdfast.connect(f"tcp://127.0.0.1:{port}", server_key=server.tcp_key, random=NoJitter()) as session:
            relay.lies = [lie] * 3

            outcome = await until_resumed(session, session.cut)

            assert outcome.kind == "resumed"
            assert relay.lied == 3
            assert session.drops == 1
