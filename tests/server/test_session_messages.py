"""Messages to a session itself: with or without a seat, once, in order, across drops; and to everybody on the node."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

import holdfast
from holdfast import Announcement, Invalid, Limits, Message, NotFound, Resynced, Session, SessionEnded, Throttled, on
from holdfast.core.codec import Codec
from holdfast.core.codecs import CODECS
from holdfast.events import BroadcastSent, SessionResynced
from holdfast.schemas.frames import Ack, Auth, Data, Hello, Latest, Position, Resume, SeatFrame, Welcome
from tests.deadlines import DEADLINE_S
from tests.server.durability.bench import until
from tests.server.raw_client import RawClient
from tests.server.world import Chat, Gate, Said, Say, World, chat, hear, same_player, server_side, until_resumed


class Invited(Message):
    by: str


class Counted(Message):
    n: int


async def received(session: holdfast.ClientSession, count: int) -> list[Message]:
    async with asyncio.timeout(DEADLINE_S):
        return [await session.receive() for _ in range(count)]


async def signed_in(world: World, server: holdfast.Server, **options: Any) -> tuple[RawClient, Welcome]:
    client = await world.raw(server, **options)
    client.say(Hello(Auth("guest"), None, "", "", ["session"]))
    return client, await client.hear(Welcome)


async def resumed(client: RawClient, welcome: Welcome, *positions: Position, features: list[str]) -> Welcome:
    client.say(Hello(None, Resume(welcome.session, welcome.token, list(positions)), "", "", features))
    return await client.hear(Welcome)


# One session


async def test_a_session_without_a_seat_gets_messages_and_types_them(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Invited])
    own = server_side(server, session)

    sent = [own.send(Invited("bo")), own.send(Announcement("soon")), own.send(Counted(1))]

    assert sent == [True, True, True]
    assert await received(session, 3) == [Invited("bo"), Announcement("soon"), holdfast.Untyped("counted", {"n": 1})]


async def test_messages_to_a_session_and_to_its_seat_do_not_mix(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Counted])
    room = await session.join_or_create("chat")
    own = server_side(server, session)

    own.send(Counted(1))
    await room.send(Say("hello"))
    own.send(Counted(2))
    in_room = await hear(room, "hello")
    await room.leave()
    own.send(Counted(3))

    assert in_room == [Said(session.player_id, "hello")]
    assert await received(session, 3) == [Counted(1), Counted(2), Counted(3)]


async def test_messages_cross_drops_in_order_and_once(world: World) -> None:
    server = await world.serve(chat())
    gate = Gate()
    session = await world.connect(server, messages=[Counted], dial=gate)
    own = server_side(server, session)
    own.send(Counted(1))
    first = await received(session, 1)

    gate.shut()
    session.cut()
    await until(lambda: own.connection is None)
    own.send(Counted(2))
    own.send(Counted(3))
    outcome = await until_resumed(session, gate.open)
    own.send(Counted(4))

    assert (outcome.kind, first) == ("resumed", [Counted(1)])
    assert await received(session, 3) == [Counted(2), Counted(3), Counted(4)]


async def test_a_message_that_was_read_but_not_dealt_with_comes_again_in_another_process(
    world: World, tmp_path: Any
) -> None:
    server = await world.serve(chat())
    saved = tmp_path / "session"
    session = await world.connect(server, messages=[Counted], saved=saved)
    for number in range(1, 4):
        server_side(server, session).send(Counted(number))
    first = await received(session, 2)
    await session.suspend()

    again = await world.connect(server, messages=[Counted], saved=saved)

    assert first == [Counted(1), Counted(2)]
    assert await received(again, 1) == [Counted(3)]


async def test_a_listener_gets_what_came_before_it_and_everything_after(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Counted])
    own = server_side(server, session)
    heard: list[Message] = []
    own.send(Counted(1))
    await until(lambda: (channel := session.protocol.channels.get(1)) is not None and channel.accepted == 1)

    session.on_message(heard.append)
    own.send(Counted(2))
    await until(lambda: len(heard) == 2)

    assert heard == [Counted(1), Counted(2)]
    await until(lambda: own.own_channel is not None and own.own_channel.acked == 2)


async def test_what_comes_after_the_last_listener_is_gone_waits_for_the_next(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Counted])
    own = server_side(server, session)
    heard: list[Message] = []

    def once(message: Message) -> None:
        heard.append(message)
        session.on_message.remove(once)

    for number in (1, 2, 3):
        own.send(Counted(number))
    await until(lambda: (channel := session.protocol.channels.get(1)) is not None and channel.accepted == 3)

    session.on_message(once)
    await until(lambda: own.own_channel is not None and own.own_channel.acked == 1)

    assert await received(session, 1) == [Counted(2)]
    session.on_message(heard.append)
    await until(lambda: len(heard) == 2)
    assert heard == [Counted(1), Counted(3)]


async def test_one_type_of_message_can_be_waited_for(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Counted, Invited])
    own = server_side(server, session)
    own.send(Counted(1))
    own.send(Invited("bo"))

    assert await session.receive(Invited) == Invited("bo")
    assert await session.receive() == Counted(1)
    with pytest.raises(Invalid, match="would never arrive"):
        await session.receive(Say)


async def test_whoever_waits_for_a_message_hears_of_the_end_instead(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    waiting = asyncio.create_task(session.receive())

    server_side(server, session).end("enough")

    with pytest.raises(SessionEnded):
        await asyncio.wait_for(waiting, DEADLINE_S)


async def test_an_ended_session_takes_no_messages(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    own = server_side(server, session)
    own.end()

    assert own.send(Counted(1)) is False


async def test_a_session_takes_messages_only(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(payload_bytes_max=4096))
    session = await world.connect(server, limits=Limits(payload_bytes_max=4096))
    own = server_side(server, session)

    with pytest.raises(TypeError, match="send a Message"):
        own.send({"n": 1})  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="more than the"):
        own.send(Announcement("x" * 5000))

    own.send(Announcement("small"))
    assert await received(session, 1) == [Announcement("small")]


async def test_another_session_of_the_player_has_messages_of_its_own(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Counted])
    other = await same_player(world, server, session)

    server_side(server, session).send(Counted(1))
    server_side(server, other).send(Counted(2))

    assert await received(session, 1) == [Counted(1)]
    assert await received(other, 1) == [holdfast.Untyped("counted", {"n": 2})]


# What cannot be kept


async def test_a_client_that_does_not_read_is_resynced_and_the_gap_is_declared(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(kept_messages_max=8, window_messages_max=4))
    gate = Gate()
    session = await world.connect(server, messages=[Counted], dial=gate)
    room = await session.join_or_create("chat")
    own = server_side(server, session)
    events: list[SessionResynced] = []
    server.on(SessionResynced)(events.append)
    own.send(Counted(0))
    await until(lambda: session.protocol.channels.get(2) is not None)

    gate.shut()
    for number in range(1, 12):
        own.send(Counted(number))
    await until(lambda: own.connection is None)
    outcome = await until_resumed(session, gate.open)
    own.send(Counted(99))
    await room.send(Say("still here"))

    assert outcome.kind == "resynced"
    assert await received(session, 2) == [Resynced(), Counted(99)]
    # The seat has lost nothing, and is not told to begin anew.
    assert await hear(room, "still here") == [Said(session.player_id, "still here")]
    assert [event.session for event in events] == [session.id]


async def test_unread_messages_are_bounded_by_the_window(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(window_messages_max=4))
    session = await world.connect(server, messages=[Counted])
    own = server_side(server, session)

    for number in range(10):
        own.send(Counted(number))
    await until(lambda: (channel := session.protocol.channels.get(1)) is not None and channel.accepted == 4)

    assert own.own_channel is not None
    assert (own.own_channel.sent, own.own_channel.acked, own.own_channel.kept) == (4, 0, 10)
    assert await received(session, 10) == [Counted(number) for number in range(10)]


async def test_a_session_that_is_gone_is_declared_too(world: World) -> None:
    server = await world.serve(chat(), grace_s=0.0)
    gate = Gate()
    session = await world.connect(server, messages=[Counted], dial=gate)
    server_side(server, session).send(Counted(1))
    await received(session, 1)
    former = session.id

    gate.shut()
    session.cut()
    await until(lambda: server.sessions.get(former) is None)
    outcome = await until_resumed(session, gate.open)
    server_side(server, session).send(Counted(2))

    assert outcome.kind == "reset"
    assert await received(session, 2) == [Resynced(), Counted(2)]


# The wire


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
async def test_the_channel_is_opened_with_the_first_message(world: World, codec: Codec) -> None:
    server = await world.serve(chat())
    client, welcome = await signed_in(world, server, codec=codec)
    session = server.sessions.get(welcome.session)
    assert session is not None
    before = session.channels_opened

    session.send(Counted(7))
    seat, data = await client.hear(SeatFrame), await client.hear(Data)

    assert before == 0
    assert seat == SeatFrame("joined", 1, 1, "", "", "session")
    assert (data.channel, data.seq, data.ack, data.type) == (1, 1, 0, "counted")


async def test_a_client_that_sends_on_the_channel_breaks_the_protocol(world: World) -> None:
    server = await world.serve(chat())
    for frame in (Data(1, 1, 0, "say", Raw(b"\x81\xa4text\xa1x")), Latest(1, "say", Raw(b"\x81\xa4text\xa1x"))):
        client, welcome = await signed_in(world, server)
        session = server.sessions.get(welcome.session)
        assert session is not None
        session.send(Counted(1))
        await client.hear(Data)

        client.say(frame)

        assert (await client.closed()).reason == "protocol"


async def test_a_client_that_does_not_know_the_channel_is_never_told_of_it(world: World) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)
    assert session is not None

    sent = session.send(Counted(1))
    counted = server.broadcast(Counted(2))
    await client.request("search")

    assert (sent, counted, session.hears) == (False, 0, False)
    assert (client.all_heard(Data), client.all_heard(SeatFrame)) == ([], [])


async def test_messages_wait_while_a_client_that_does_not_know_the_channel_has_the_session(world: World) -> None:
    server = await world.serve(chat())
    new, welcome = await signed_in(world, server)
    session = server.sessions.get(welcome.session)
    assert session is not None
    session.send(Counted(1))
    await new.hear(Data)
    new.cut()

    old = await world.raw(server)
    back = await resumed(old, welcome, features=[])
    sent = session.send(Counted(2))
    await old.request("search")
    old.cut()
    again = await world.raw(server)
    at_last = await resumed(again, back, features=["session", "something newer"])
    session.send(Counted(3))

    assert (back.channels, sent, old.all_heard(Data)) == ([], False, [])
    assert [(each.channel, each.purpose) for each in at_last.channels] == [(1, "session")]
    data = [await again.hear(Data), await again.hear(Data)]
    assert [(each.seq, bytes(each.body)) for each in data] == [(1, b"\x81\xa1n\x01"), (2, b"\x81\xa1n\x03")]


async def test_a_hello_may_name_only_so_many_features(world: World) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)

    client.say(Hello(Auth("guest"), None, "", "", ["x"] * 17))

    assert (await client.closed()).reason == "protocol"


async def test_acknowledgements_let_go_of_messages(world: World) -> None:
    server = await world.serve(chat())
    client, welcome = await signed_in(world, server)
    session = server.sessions.get(welcome.session)
    assert session is not None
    session.send(Counted(1))
    session.send(Counted(2))
    await client.hear(Data)

    client.say(Ack(1, 2))
    await client.request("search")

    assert session.own_channel is not None
    assert session.own_channel.kept == 0


# Agents


async def reading(*agents: holdfast.Agent) -> list[asyncio.Task[Message]]:
    """The next message to each of these agents, which begin to read."""
    tasks = [asyncio.create_task(agent.receive()) for agent in agents]
    await asyncio.sleep(0)
    return tasks


async def test_an_agent_gets_messages_as_the_objects_they_are(world: World) -> None:
    server = await world.serve(chat())
    npc = server.open_agent("npc")
    message = Counted(1)

    unheard = npc.session.send(Counted(0))
    (first,) = await reading(npc)
    sent = npc.session.send(message)
    got = await first
    (second,) = await reading(npc)
    npc.end()

    assert (unheard, sent) == (False, True)
    assert got is message
    with pytest.raises(SessionEnded):
        await asyncio.wait_for(second, DEADLINE_S)
    assert npc.session.send(message) is False
    with pytest.raises(SessionEnded):
        await npc.receive()


# Everybody


class Guarded(Chat):
    kind = "guarded"


async def test_a_broadcast_reaches_everybody_on_the_node(world: World) -> None:
    server = await world.serve(chat(), chat(Guarded, kind="guarded"))
    gate = Gate()
    seated, seatless = [await world.connect(server, messages=[Counted]) for _ in range(2)]
    away = await world.connect(server, messages=[Counted], dial=gate)
    await seated.join_or_create("chat")
    (npc,) = await reading(server.open_agent("npc"))
    gate.shut()
    away.cut()
    await until(lambda: server_side(server, away).connection is None)
    told: list[BroadcastSent] = []
    server.on(BroadcastSent)(told.append)

    count = server.broadcast(Counted(5))
    gate.open()

    assert count == 4
    for session in (seated, seatless, away):
        assert await received(session, 1) == [Counted(5)]
    assert await npc == Counted(5)
    await until(lambda: told)
    assert [(each.message, each.sessions, each.text) for each in told] == [("counted", 4, "")]


async def test_a_broadcast_can_be_for_some(world: World) -> None:
    server = await world.serve(chat(), chat(Guarded, kind="guarded"))
    one, two = [await world.connect(server, messages=[Counted]) for _ in range(2)]
    await one.join_or_create("chat")
    await two.join_or_create("guarded")
    (guard,) = await reading(server.open_agent("npc", roles=["guard"]))

    counts = [
        server.broadcast(Counted(1), kind="guarded"),
        server.broadcast(Counted(2), role="guard"),
        server.broadcast(Counted(3), where=lambda session: session.player_id == one.player_id),
        server.broadcast(Counted(4), kind="chat", role="guard"),
    ]

    assert counts == [1, 1, 1, 0]
    assert await received(one, 1) == [Counted(3)]
    assert await received(two, 1) == [Counted(1)]
    assert await guard == Counted(2)
    with pytest.raises(NotFound, match="unknown kind"):
        server.broadcast(Counted(5), kind="gaurded")


async def test_a_broadcast_to_a_kind_of_room_is_for_those_who_play_and_those_who_watch(world: World) -> None:
    server = await world.serve(chat(max_spectators=2), chat(Guarded, kind="guarded"))
    player, watcher, other = [await world.connect(server, messages=[Counted]) for _ in range(3)]
    room = await player.join_or_create("chat")
    await watcher.spectate(room.id)
    await other.join_or_create("guarded")

    count = server.broadcast(Counted(1), kind="chat")

    assert count == 2
    assert await received(player, 1) == await received(watcher, 1) == [Counted(1)]


async def test_a_broadcast_to_many_leaves_the_loop_free_and_keeps_its_order(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(broadcasts_max=2))
    agents = [server.open_agent(f"npc{number}") for number in range(300)]
    heard = await reading(*agents)

    first, second = server.broadcast(Counted(1)), server.broadcast(Counted(2))
    with pytest.raises(Throttled):
        server.broadcast(Counted(3))
    at_once = [agent for agent in agents if agent.session.inbox._messages]  # type: ignore[union-attr]  # noqa: SLF001
    agents[250].end()

    assert (first, second, len(at_once)) == (300, 300, 128)
    for agent, told in [*zip(agents, heard, strict=True)][:250]:
        assert [await told, await agent.receive()] == [Counted(1), Counted(2)]
    with pytest.raises(SessionEnded):
        await heard[250]
    assert server.broadcast(Counted(4)) == 299


async def test_an_end_of_the_server_lets_nobody_wait_for_a_broadcast() -> None:
    server = holdfast.Server([chat()], listen=[])
    await server.start()
    heard = await reading(*(server.open_agent(f"npc{number}") for number in range(300)))

    server.broadcast(Counted(1))
    await server.stop()

    assert await asyncio.gather(*heard) == [Counted(1)] * 300


async def test_a_predicate_that_fails_sends_nothing(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Counted])

    def fails(_: Session) -> bool:
        raise LookupError("no such guild")

    async def is_always_true(_: Session) -> bool:
        return False

    with pytest.raises(LookupError):
        server.broadcast(Counted(1), where=fails)
    with pytest.raises(TypeError, match="a plain function"):
        server.broadcast(Counted(1), where=is_always_true)  # type: ignore[arg-type] # what is wrong with it
    server.broadcast(Counted(2))

    assert await received(session, 1) == [Counted(2)]


class Inviting(Chat):
    """Whoever speaks is told so in person, wherever they are."""

    @on(Say)
    def said(self, player: Any, say: Say) -> None:
        player.session.send(Said("session", say.text))


async def test_a_room_speaks_to_the_sessions_of_its_players(world: World) -> None:
    server = await world.serve(chat(Inviting))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Say("hello"))

    assert await received(session, 1) == [Said("session", "hello")]
