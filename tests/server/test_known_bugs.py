"""Bugs that others had: what became of a session elsewhere must not become of it here. Each test names where."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec import Raw

from holdfast import Reason
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.frames import Auth, Data, Hello, Latest, Reply, Request, Resume, SeatFrame, Welcome
from tests.server.live import live_connection
from tests.server.raw_client import RawClient
from tests.server.world import Say, World, chat, texts_until

SOURCE = Path(__file__).parents[2] / "src"
# What turns bytes into code.
CODE_FROM_BYTES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle", "yaml"}


async def seated(world: World, url: str) -> tuple[RawClient, Welcome]:
    client = await RawClient.dial(url)
    welcome = await client.sign_in()
    client.say(Request(1, "join_or_create", Raw(client.codec.encode({"kind": "chat"}))))
    await client.hear(Reply)
    return client, welcome


async def test_what_everybody_can_see_of_a_player_opens_nothing(world: World) -> None:
    """Colyseus #354: whoever knew the public id of a session could reconnect as its player."""
    server = await world.serve(chat())
    _, welcome = await seated(world, server.url)

    for token in (welcome.session, welcome.player, "", welcome.session + welcome.player):
        thief = await RawClient.dial(server.url)
        thief.say(Hello(resume=Resume(welcome.session, token)))
        close = await thief.closed()
        assert close.code == CLOSE_CODES[Reason.EXPIRED]

    session = server.sessions.get(welcome.session)
    assert session is not None
    assert session.status == "connected"


async def test_no_token_is_shown_to_the_others_in_a_room(world: World) -> None:
    """Colyseus #354 again: secrets do not belong into what a room shows."""
    server = await world.serve(chat())
    first, one = await seated(world, server.url)
    second, other = await seated(world, server.url)
    first.send(1, Say("hello"))
    await second.hear(Data)

    heard = repr([second.codec.encode(frame) for frame in second.heard if not isinstance(frame, Welcome)])

    assert one.token not in heard
    assert one.credential not in heard
    assert other.token not in heard


def test_no_bytes_are_ever_turned_into_code() -> None:
    """python-socketio CVE-2025-61765: messages between nodes were pickled."""
    found = Counter[str]()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Import(names=names):
                    found.update(alias.name.partition(".")[0] for alias in names)
                case ast.ImportFrom(module=str(module)):
                    found[module.partition(".")[0]] += 1
                case ast.Call(func=ast.Name(id=name)) if name in {"eval", "exec", "compile"}:
                    found[name] += 1

    assert found["msgspec"] > 0
    assert not CODE_FROM_BYTES & set(found)
    assert not {"eval", "exec", "compile"} & set(found)


@pytest.mark.parametrize("times", [2, 20])
async def test_two_packets_of_an_unknown_kind_stop_nobody_else(world: World, times: int) -> None:
    """Overworld W4: an unknown prefix crashed the server for everybody; two of them stopped it for good."""
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    for _ in range(times):
        stranger = await RawClient.dial(server.url)
        stranger.link.send(stranger.codec.encode([["no_such_frame", 1]]))
        assert (await stranger.closed()).code == CLOSE_CODES[Reason.PROTOCOL]
        vandal, _ = await seated(world, server.url)
        vandal.say(Data(1, 1, 0, "no_such_message", Raw(vandal.codec.encode({}))))
        await vandal.hear(Data)
        await vandal.close()

    await room.send(Say("still here"))
    assert (await texts_until(room, "still here"))[-1] == "still here"
    assert server.counters.internal_errors == 0


async def test_joining_twice_harms_neither_the_room_nor_its_players(world: World) -> None:
    """Overworld W5: a join by somebody who was in crashed the zone, and lost everybody's state."""
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    vandal, _ = await seated(world, server.url)

    for number in (2, 3):
        vandal.say(Request(number, "join", Raw(vandal.codec.encode({"room": room.id}))))
        reply = await vandal.hear(Reply)
        assert reply.problem is not None
        assert reply.problem.code == "already_seated"

    await room.send(Say("unharmed"))
    assert (await texts_until(room, "unharmed"))[-1] == "unharmed"
    assert len(kind.story.of("on_join")) == 2


async def test_what_still_comes_from_a_connection_that_ended_brings_no_session_back(world: World) -> None:
    """Moongate M5: a packet that was still in the queue made the session anew, and nothing ever removed it."""
    server = await world.serve(chat(), grace_s=0.0)
    client, welcome = await seated(world, server.url)
    session = server.sessions.get(welcome.session)
    assert session is not None
    connection = live_connection(session)
    assert connection is not None

    session.end("over")
    for frame in (
        Hello(Auth()),
        Hello(resume=Resume(welcome.session, welcome.token)),
        Data(1, 1, 0, "say", Raw(client.codec.encode({"text": "zombie"}))),
        Latest(1, "say", Raw(client.codec.encode({"text": "zombie"}))),
        Request(2, "join_or_create", Raw(client.codec.encode({"kind": "chat"}))),
    ):
        connection.received(client.codec.payload(frame))

    assert len(server.sessions) == 0
    assert not server.parts.connections
    assert (await client.closed()).reason == Reason.KICKED


async def test_nothing_that_is_handed_out_can_be_guessed_from_what_was_handed_out_before(world: World) -> None:
    """Moongate M2: the key of a handoff was a counter; who guessed the next one had somebody's account."""
    server = await world.serve(chat())
    welcomes = [await (await RawClient.dial(server.url)).sign_in() for _ in range(20)]

    for secrets in ([each.token for each in welcomes], [each.session for each in welcomes]):
        assert len(set(secrets)) == len(secrets)
        # Neither numbers that count up nor a common beginning that leaves little to guess.
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{16,}", each) for each in secrets)
        assert len({each[:4] for each in secrets}) == len(secrets)


async def test_the_token_of_one_session_does_not_open_another(world: World) -> None:
    """Moongate M2, Evennia #2055: what was handed to one player was good for another's session."""
    server = await world.serve(chat())
    _, mine = await seated(world, server.url)
    _, theirs = await seated(world, server.url)

    thief = await RawClient.dial(server.url)
    thief.say(Hello(resume=Resume(theirs.session, mine.token)))

    assert (await thief.closed()).code == CLOSE_CODES[Reason.EXPIRED]
    assert all(server.sessions.get(each.session) is not None for each in (mine, theirs))


async def test_a_seat_is_announced_to_nobody_but_who_has_it(world: World) -> None:
    """A second seat for the same name (Moongate M3) is decided by the room's policy, not by who comes last."""
    server = await world.serve(chat(duplicate="reject"))
    client, welcome = await seated(world, server.url)
    twin = await RawClient.dial(server.url)
    await twin.sign_in(welcome.credential)

    twin.say(Request(1, "join", Raw(twin.codec.encode({"room": client.all_heard(SeatFrame)[0].room}))))
    reply = await twin.hear(Reply)

    assert reply.problem is not None
    assert reply.problem.code == "duplicate"
    assert not twin.all_heard(SeatFrame)
