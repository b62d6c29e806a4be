import asyncio

import pytest

from holdfast import Limits, SessionFlags, Tcp, WebSocket
from holdfast.client.connect import dial
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import Ack, Ping, Pong
from holdfast.transports.port import Receiver, Subprotocol, Transport, TransportLimits
from tests.server.world import CLOCK_S, World, chat, hear, player_in, room_of, until_resumed

PING_S = 0.05
SILENCE_S = 0.3
QUICK = Limits(ping_s=PING_S, silence_s=SILENCE_S)


class LongLine:
    """A link on which everything takes a while to arrive."""

    DELAY_S = 0.03

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.opened = receiver.opened
        self.congested = receiver.congested
        self.drained = receiver.drained
        self.lost = receiver.lost
        self.kept_busy = receiver.kept_busy
        self.received_datagram = receiver.received_datagram

    def received(self, payload: bytes) -> None:
        asyncio.get_running_loop().call_later(self.DELAY_S, self._receiver.received, payload)


async def dial_far(receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits) -> Transport:
    return await dial(LongLine(receiver), url, subprotocol, limits)


async def test_the_latency_of_a_session_is_measured_and_known_on_both_sides(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(ping_s=0.15))
    session = await world.connect(server, dial=dial_far)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    clock = await world.raw(server)
    await clock.sign_in()

    # Pings reach the one as often as the other.
    for _ in range(4):
        await clock.hear(Ping)

    assert player.session.latency.samples >= 2
    assert 0 < player.latency_ms < 1000
    assert player.latency_ms == player.session.latency_ms
    assert 0 < session.latency_ms < 1000


async def test_the_latency_is_the_whole_way_there_and_back(world: World) -> None:
    # Answered within one interval: the answer to a ping that another has followed is forgotten.
    server = await world.serve(chat(), limits=Limits(ping_s=1.0))
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)
    assert session is not None
    ping = await client.hear(Ping)
    was_awaiting = bool(session.flags & SessionFlags.AWAITING_RESPONSE)
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, later.set)
    await later.wait()

    client.say(Pong(ping.id))
    await client.request("search")

    assert was_awaiting
    assert session.latency.samples == 1
    assert session.latency_ms >= (0.2 - CLOCK_S) * 1000
    assert session.flags == SessionFlags.NONE


async def test_the_client_is_told_its_latency_with_the_next_ping(world: World) -> None:
    server = await world.serve(chat(), limits=QUICK)
    client = await world.raw(server)
    await client.sign_in()

    first = await client.hear(Ping)
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(PING_S / 5, later.set)
    await later.wait()
    client.say(Pong(first.id))
    second = await client.hear(Ping)

    assert first.latency_ms == 0
    assert second.latency_ms > 0
    assert second.id > first.id


@pytest.mark.parametrize("forged_by", [1000, -1], ids=["never sent", "sent before"])
async def test_an_answer_to_a_ping_that_is_not_asked_is_ignored(world: World, forged_by: int) -> None:
    server = await world.serve(chat(), limits=QUICK)
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)
    assert session is not None

    await client.hear(Ping)
    for _ in range(3):
        ping = await client.hear(Ping)
        client.say(Pong(ping.id + forged_by))
    await client.request("search")

    assert session.latency.samples == 0
    assert session.latency_ms == 0
    assert session.status == "connected"


async def test_an_answer_counts_once(world: World) -> None:
    server = await world.serve(chat(), limits=QUICK)
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)
    assert session is not None
    ping = await client.hear(Ping)

    client.say(Pong(ping.id), Pong(ping.id), Pong(ping.id))
    await client.request("search")

    assert session.latency.samples == 1


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_a_client_that_says_nothing_for_too_long_has_dropped(world: World, transport: str) -> None:
    kind = chat()
    server = await world.serve(kind, limits=QUICK, listen=[WebSocket(port=0), Tcp(port=0)])
    silent = await world.raw(server, transport=transport)
    welcome = await silent.sign_in()
    await silent.join()
    session = server.sessions.get(welcome.session)
    assert session is not None
    connection = session.connection
    assert connection is not None

    await kind.story.has("on_drop", welcome.player)

    (dropped_at,) = kind.story.when("on_drop")
    assert SILENCE_S - CLOCK_S <= dropped_at - connection.heard_at <= SILENCE_S + 2 * PING_S + 0.5
    assert connection.end_reason is Reason.SILENT
    assert session.status == "disconnected"
    await silent.ended()


async def test_a_client_that_says_anything_at_all_is_alive(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=QUICK)
    terse = await world.raw(server)
    await terse.sign_in()
    seat = await terse.join()

    for _ in range(int(2 * SILENCE_S / PING_S)):
        await terse.hear(Ping)
        terse.say(Ack(seat.channel, 0))

    assert kind.story.of("on_drop") == []


async def test_a_silent_client_may_come_back(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=QUICK)
    silent = await world.raw(server)
    welcome = await silent.sign_in()
    await silent.join()
    await kind.story.has("on_drop")

    back = await world.raw(server)
    again = await back.resume(welcome)

    assert again.outcome.kind == "resumed"
    assert kind.story.of("on_leave") == []


async def test_a_real_client_is_never_silent_and_drops_nothing(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=QUICK)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    server_room = room_of(server, room)
    server_room.after(SILENCE_S * 2, server_room.announce, "later")  # type: ignore[attr-defined] # of `Chat`
    await hear(room, "later")

    assert session.drops == 0


async def test_a_client_notices_that_its_server_is_silent_and_comes_back(world: World) -> None:
    """A server that promises a sign of life every 0.2 s and gives none is what a dead one looks like."""
    kind = chat()
    server = await world.serve(kind, limits=Limits(ping_s=60.0, silence_s=0.2))
    session = await world.connect(server)
    await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    (server_session,) = server.sessions
    connection = server_session.connection
    assert connection is not None

    outcome = await until_resumed(session, lambda: None)

    assert outcome.kind == "resumed"
    assert connection.end_reason is Reason.DROPPED, "the client hung up"
