"""The packet log: on and off while the node runs, for a session or an address, and it ends by itself."""

import asyncio
import logging
from typing import Any

import pytest

from holdfast import Auth, Invalid, Limits, NotFound, SessionFlags, Throttled
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.schemas.frames import Hello
from holdfast.schemas.node import PacketTarget
from holdfast.testing import FaultyStore, MemoryServer
from tests.log_lines import line_of
from tests.server.durability.bench import in_virtual_time
from tests.server.live import live_connection
from tests.server.world import Said, Say, World, chat, hear, server_side, until_resumed


def packets(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [line_of(record) for record in caplog.records if record.name == "holdfast.packets"]
    return [fields for event, fields in lines if event == "packet"]


def frames(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{packet['direction']} {frame}" for packet in packets(caplog) for frame in packet["frames"]]


async def test_the_packets_of_one_session_are_logged_and_of_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    server.packet_log(session=ada.id)
    await bob_room.send(Say("from bob"))
    await hear(ada_room, "from bob")
    await ada_room.send(Say("from ada"))
    await hear(ada_room, "from ada")
    server.packet_log(session=ada.id, on=False)
    await ada_room.send(Say("unseen"))
    await hear(ada_room, "unseen")

    told = packets(caplog)
    assert {packet["session"] for packet in told} == {ada.id}
    connection = server_side(server, ada).connection
    assert connection is not None
    assert {packet["connection"] for packet in told} == {connection.id}
    assert all(packet["length"] > 0 and packet["dump"] for packet in told)
    said = "\n".join(frames(caplog))
    assert 'in data channel=1 seq=1 ack=1 type="say" body={"text": "from ada"}' in said
    assert "out data" in said
    assert "from bob" in said, "what ada hears of bob is hers"
    assert "unseen" not in said


async def test_whose_packets_they_are_is_a_field_that_is_called_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)

    for on in (True, False):
        server.packet_log(session=session.id, on=on)
        server.packet_log(address="203.0.113.0/24", on=on)

    told = [line_of(record) for record in caplog.records if record.name == "holdfast.packets"]
    for_s = {"for_s": 600.0}
    assert told == [
        ("the packet log is on", {"session": session.id, **for_s}),
        ("the packet log is on", {"address": "203.0.113.0/24", **for_s}),
        ("the packet log is off", {"session": session.id}),
        ("the packet log is off", {"address": "203.0.113.0/24"}),
    ]


async def test_a_session_s_flag_says_that_it_is_followed(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    mine = server_side(server, session)

    server.packet_log(session=session.id)
    is_on = SessionFlags.PACKET_LOGGING in mine.flags
    server.packet_log(session=session.id, on=False)

    assert is_on
    assert SessionFlags.PACKET_LOGGING not in mine.flags


@pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=["msgpack", "json"])
@pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.0/8", "::ffff:127.0.0.1"])
async def test_an_address_is_followed_from_the_first_payload_on_and_tells_no_secret(
    world: World, caplog: pytest.LogCaptureFixture, codec: Codec, target: str
) -> None:
    server = await world.serve(chat())
    before = await world.raw(server)
    server.packet_log(address=target)

    client = await world.raw(server, codec=codec)
    welcome = await client.sign_in()
    await client.request("create", kind="chat", password="open-sesame")
    await before.sign_in()

    said = frames(caplog)
    assert said[0].startswith("in hello auth={}")
    assert said[1].startswith(f'out welcome session="{welcome.session}" player="{welcome.player}" token="***"')
    assert '"password": "***"' in said[2]
    assert sum("in hello" in frame for frame in said) == 2, "also of a link that was open already"
    everything = caplog.text + "".join(_letters(caplog))
    assert [each for each in (welcome.token, welcome.credential, "open-sesame") if each in everything] == []


def _letters(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The right-hand column of every dump, without its edges: what runs over two rows is found too."""
    return ["".join(row[row.index("|") + 1 : -1] for row in packet["dump"] if "|" in row) for packet in packets(caplog)]


async def test_an_address_elsewhere_is_not_followed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = await world.serve(chat())
    server.packet_log(address="203.0.113.0/24")
    server.packet_log(address="2001:db8::/32")

    client = await world.raw(server)
    await client.sign_in()

    assert packets(caplog) == []


async def test_a_session_that_drops_is_followed_on_its_next_connection(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    server.packet_log(session=session.id)

    await until_resumed(session, session.cut)
    await session.join_or_create("chat")

    said = frames(caplog)
    assert said[0].startswith("out welcome")
    assert any(frame.startswith("in request") for frame in said)
    assert len({packet["connection"] for packet in packets(caplog)}) == 1, "before the drop it said nothing"


async def test_a_malformed_hello_is_logged_as_no_more_than_that(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = await world.serve(chat())
    server.packet_log(address="127.0.0.1")
    client = await world.raw(server)

    client.link.send(MSGPACK.payload(Hello(Auth("guest", "the-secret-of-ann")))[:-2])
    await client.closed()

    hello, close = packets(caplog)
    assert hello["frames"] == ["(not a payload of frames)"]
    assert close["frames"][0].startswith("close code=")
    assert "secret-of" not in caplog.text


@in_virtual_time
async def test_it_ends_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryServer([chat()]) as server:
        session = await server.connect("ada", messages=[Said])
        room = await session.join_or_create("chat")
        server.machine.call(lambda: server.packet_log(session=session.id, for_s=60.0))
        await asyncio.sleep(30.0)
        left = server.parts.packets.targets()
        await asyncio.sleep(31.0)
        caplog.clear()
        await room.send(Say("unseen"))
        await asyncio.sleep(1.0)

        assert left == [PacketTarget(session.id, "session", 30.0)]
        assert server.parts.packets.targets() == []
        assert packets(caplog) == []
        mine = server.sessions.get(session.id)
        assert mine is not None
        assert SessionFlags.PACKET_LOGGING not in mine.flags


@in_virtual_time
async def test_asking_again_begins_a_new_time() -> None:
    async with MemoryServer([chat()]) as server:
        session = await server.connect("ada")
        server.machine.call(lambda: server.packet_log(session=session.id, for_s=10.0))
        await asyncio.sleep(9.0)
        server.machine.call(lambda: server.packet_log(session=session.id, for_s=10.0))
        await asyncio.sleep(9.0)

        assert [target.ends_in_s for target in server.parts.packets.targets()] == [1.0]


@in_virtual_time
async def test_two_reasons_to_follow_a_connection_end_one_after_the_other(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryServer([chat()]) as server:
        ada, bob = await server.connect("ada"), await server.connect("bob")
        server.machine.call(lambda: server.packet_log(session=ada.id, for_s=10.0))
        server.machine.call(lambda: server.packet_log(session=bob.id, for_s=20.0))
        await asyncio.sleep(15.0)
        caplog.clear()
        await ada.join_or_create("chat")
        await bob.join_or_create("chat")

        assert {packet["session"] for packet in packets(caplog)} == {bob.id}


async def test_what_cannot_be_followed_is_refused_in_words(world: World) -> None:
    server = await world.serve(chat())
    agent = server.open_agent("bot")

    with pytest.raises(NotFound, match="'nobody' is neither a session nor an address"):
        server.packet_log(session="nobody")
    with pytest.raises(Invalid, match=r"203\.0\.113\.7"):
        server.packet_log(address="not.an.address")
    with pytest.raises(Invalid, match="agent"):
        server.packet_log(session=agent.session.id)
    with pytest.raises(NotFound, match="are not logged"):
        server.packet_log(address="203.0.113.7", on=False)
    for for_s in (0.0, -1.0, 90_000.0, float("nan")):
        with pytest.raises(Invalid, match="for_s"):
            server.packet_log(address="203.0.113.7", for_s=for_s)
    for session, address in (("", ""), ("s", "203.0.113.7")):
        with pytest.raises(ValueError, match="name a session or an address"):
            server.packet_log(session=session, address=address)


async def test_so_many_are_followed_at_a_time_and_those_that_ended_do_not_count(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(packet_targets_max=2))
    session = await world.connect(server)
    server.packet_log(session=session.id)
    server.packet_log(address="203.0.113.7")

    with pytest.raises(Throttled, match="switch one off"):
        server.packet_log(address="203.0.113.8")
    server.packet_log(address="203.0.113.7")
    server_side(server, session).end()
    server.packet_log(address="203.0.113.8")

    assert [target.target for target in server.parts.packets.targets()] == ["203.0.113.7", "203.0.113.8"]


@in_virtual_time
async def test_a_flood_of_packets_is_so_many_lines_in_a_second(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryServer([chat()], limits=Limits(packet_lines_per_s=5)) as server:
        session = await server.connect("ada", messages=[Said])
        room = await session.join_or_create("chat")
        server.machine.call(lambda: server.packet_log(session=session.id))
        for number in range(50):
            await room.send(Say(str(number)))
        await asyncio.sleep(0.5)

        assert 0 < len(packets(caplog)) <= 5


@in_virtual_time
async def test_a_session_that_comes_back_from_the_store_is_followed_still() -> None:
    kind = chat(durability="commit")
    async with MemoryServer([kind], store=FaultyStore()) as server:
        session = await server.connect("ada", messages=[Said])
        await session.join_or_create("chat")
        mine = server.sessions.get(session.id)
        assert mine is not None
        server.machine.call(lambda: server.packet_log(session=session.id))
        # As after a recovery: the same id, and nothing else that is remembered.
        mine.flags = SessionFlags.NONE
        await until_resumed(session, session.cut)

        assert SessionFlags.PACKET_LOGGING in mine.flags


async def test_a_connection_has_a_tap_only_while_it_is_followed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    connection = live_connection(server_side(server, session))
    assert connection is not None

    taps = [connection.tap]
    server.packet_log(session=session.id)
    taps.append(connection.tap)
    caplog.set_level(logging.CRITICAL, logger="holdfast.packets")
    await session.join_or_create("chat")

    assert [tap is not None for tap in taps] == [False, True]
    assert packets(caplog) == []


async def test_a_fault_of_the_packet_log_harms_nobody(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("holdfast.observability.packet_text.PacketReader.read", break_down)
    server = await world.serve(chat())
    session = await world.connect(server)
    server.packet_log(session=session.id)

    room = await session.join_or_create("chat")
    await room.send(Say("as ever"))
    await hear(room, "as ever")

    assert server.counters.internal_errors == 1
    assert "where='the packet log'" in caplog.text
