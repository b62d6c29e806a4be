"""A scene for every reason, in every place where it occurs. How a client hears of it: in a close frame, in the last
message of its seat, in the welcome when it is back (for what was cut without a word), as the code of the transport, or,
if its session is gone when it comes back, as "expired"; of a link that broke nobody tells it.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast import Agent, Auth, PlayerData, Reason, Refused, RoomAgent, SeatLeft
from holdfast.core.reasons import reason_of
from holdfast.core.session import seat_of
from holdfast.identity.port import Approach, Identity
from holdfast.schemas.events import (
    ConnectionRefused,
    Dropped,
    Ended,
    Event,
    PlayerLeft,
    Released,
    SignInFailed,
    SpectatorLeft,
)
from holdfast.schemas.frames import Bye, Hello, Position, Resume
from holdfast.schemas.requests import Ban, Create
from holdfast.server.agent_sessions import Inbox
from holdfast.server.agents import AgentRoom
from holdfast.testing import FaultyStore, Named
from tests.observability.scene import Say, Scene, Visitor, hall, scene
from tests.server.durability.bench import until

Heard = str
Play = Callable[[], Awaitable[tuple[list[Event], Heard]]]


class Case(NamedTuple):
    """An end of this kind for this reason, and what the client hears of it."""

    reason: Reason
    event: type[Event]
    heard: Heard
    play: Play


CASES: list[Case] = []


def case(reason: Reason, *events: type[Event], heard: Heard | None = None) -> Callable[[Play], Play]:
    """This scene ends something for a reason; the client hears the same, unless it cannot."""

    def add(play: Play) -> Play:
        CASES.extend(Case(reason, event, reason if heard is None else heard, play) for event in events)
        return play

    return add


BROKEN = ""
"""Nobody tells a client that its link broke: it sees that for itself."""


def _break(play: Scene, service: str) -> None:
    """A bug of ours, in what connections call."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    setattr(play.server.parts.connection_services, service, fail)


# A connection ends, the session lives


@case(Reason.DROPPED, Dropped, heard=BROKEN)
async def _the_link_breaks() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.seated()
        ada.client.cut()
        await play.settled()
        return play.events, (await play.back(ada)).welcome.outcome.drop_reason


@case(Reason.SILENT, Dropped)
async def _nothing_is_heard() -> tuple[list[Event], Heard]:
    async with scene(ping_s=5.0, silence_s=16.0) as play:
        ada = await play.seated()
        await until(lambda: play.of(Dropped))
        return play.events, (await play.back(ada)).welcome.outcome.drop_reason


@case(Reason.SLOW, Dropped)
async def _more_waits_than_may_be_kept() -> tuple[list[Event], Heard]:
    async with scene(kept_messages_max=20, window_messages_max=10) as play:
        ada = await play.seated()
        for number in range(30):
            play.call(play.room(ada).broadcast, Say(str(number)))
        return play.events, await ada.closed_for()


@case(Reason.SLOW, Dropped)
async def _more_is_written_than_is_read() -> tuple[list[Event], Heard]:
    async with scene(write_buffer_bytes_max=400, window_bytes_max=200) as play:
        ada = await play.seated()
        play.link(ada).stop_reading("client")
        for number in range(40):
            ada.client.ask("search", kind=f"{number:060}")
            await play.settled()
        await until(lambda: play.of(Dropped))
        return play.events, (await play.back(ada)).welcome.outcome.drop_reason


@case(Reason.SEQUENCE, Dropped)
async def _a_message_is_missing() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.seated()
        ada.client.send(2, Say("where is the first?"))
        return play.events, await ada.closed_for()


@case(Reason.BUSY, Dropped)
async def _the_store_does_not_save() -> tuple[list[Event], Heard]:
    store = FaultyStore()
    async with scene(hall(durability="commit"), store=store) as play:
        ada = await play.seated()
        store.is_full = True
        ada.client.send(1, Say("is this saved?"))
        reason = await ada.closed_for()
        store.is_full = False
        return play.events, reason


@case(Reason.STOPPING, Dropped, Ended)
async def _the_server_stops() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        await play.server.stop()
        return play.events, await ada.closed_for()


@case(Reason.STOPPING, Dropped, Released)
async def _the_server_stops_and_the_session_waits_in_the_store() -> tuple[list[Event], Heard]:
    async with scene(hall(durability="commit"), store=FaultyStore()) as play:
        ada = await play.seated()
        await play.server.stop()
        return play.events, await ada.closed_for()


@case(Reason.INTERNAL, Dropped)
async def _the_server_fails() -> tuple[list[Event], Heard]:
    async with scene(allow_errors=Exception) as play:
        ada = await play.enter()
        _break(play, "request")
        ada.client.ask("search", kind="hall")
        return play.events, await ada.closed_for()


@case(Reason.DISCONNECTED, Dropped)
async def _the_game_closes_the_connection() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        play.call(play.session(ada).disconnect, "come back in a minute")
        return play.events, await ada.closed_for()


@case(Reason.FLOODING, Dropped)
async def _far_too_much_is_said() -> tuple[list[Event], Heard]:
    async with scene(messages_burst=5, messages_per_s=1.0, violations_warned_max=1, violations_max=2) as play:
        ada = await play.seated()
        for seq in range(1, 40):
            ada.client.send(seq, Say("again"))
        return play.events, await ada.closed_for()


@case(Reason.PROTOCOL, Dropped)
async def _what_came_means_nothing() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        ada.client.link.send(b"\x00")
        return play.events, await ada.closed_for()


@case(Reason.TOO_BIG, Dropped)
async def _a_payload_is_too_big() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        ada.client.link.send(bytes(play.server.limits.payload_bytes_max + 1))
        code, _ = await ada.client.ended()
        return play.events, reason_of(code)


# A session ends


@case(Reason.BYE, Ended)
async def _they_sign_off() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        ada.client.say(Bye("good night"))
        return play.events, await ada.closed_for()


@case(Reason.KICKED, Ended)
async def _the_game_ends_the_session() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        play.call(play.session(ada).end, "spam")
        return play.events, await ada.closed_for()


@case(Reason.BANNED, Ended)
async def _they_are_banned() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        await play.server.machine.do(play.operator().access.ban(Ban(player="ada")))
        return play.events, await ada.closed_for()


@case(Reason.SIGNED_OUT, Ended)
async def _they_are_signed_out() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        await play.server.machine.do(play.operator().access.sign_out("ada", ""))
        return play.events, await ada.closed_for()


@case(Reason.IDLE, Ended)
async def _they_do_nothing() -> tuple[list[Event], Heard]:
    async with scene(ping_s=5.0, idle_s=60.0) as play:
        ada = await play.enter()
        await until(lambda: play.of(Ended))
        return play.events, await ada.closed_for()


@case(Reason.TOO_OLD, Ended)
async def _the_session_is_old() -> tuple[list[Event], Heard]:
    async with scene(ping_s=5.0, session_age_max_s=60.0) as play:
        ada = await play.enter()
        await until(lambda: play.of(Ended))
        return play.events, await ada.closed_for()


@case(Reason.TOKEN_REUSED, Ended, ConnectionRefused)
async def _a_used_token_comes_again() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter()
        ada.client.cut()
        second = await play.back(ada)
        await second.client.request("mine")
        thief = await play.turned_away(Hello(None, Resume(ada.session_id, ada.welcome.token)))
        assert thief.reason == Reason.TOKEN_REUSED
        return play.events, await second.closed_for()


@case(Reason.SUPERSEDED, Ended, PlayerLeft)
async def _the_player_joins_from_elsewhere() -> tuple[list[Event], Heard]:
    async with scene() as play:
        first, second = await play.seated(), await play.enter()
        await second.join()
        return play.events, await first.closed_for()


@case(Reason.GRACE_ENDED, Ended, PlayerLeft, heard=Reason.EXPIRED)
async def _they_do_not_come_back() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.seated()
        ada.client.cut()
        await until(lambda: play.of(Ended))
        return play.events, (await play.turned_away(Hello(None, Resume(ada.session_id, ada.welcome.token)))).reason


@case(Reason.SLOW, Ended, PlayerLeft)
async def _an_agent_does_not_read() -> tuple[list[Event], Heard]:
    async with scene(kept_messages_max=20) as play:
        agent = play.server.open_agent("npc")
        room = await play.server.machine.do(_joined(play, agent))
        for _ in range(30):
            play.call(play.server.rooms.get(room.id).broadcast, Say("hello?"))  # type: ignore[union-attr] # it is there
        assert room.left is not None
        return play.events, room.left.reason


async def _joined(play: Scene, agent: Agent) -> AgentRoom:
    return await agent.join((await play.server.parts.rooms.create(Create("hall"))).room.id)


def _lose(play: Scene, player: Visitor) -> None:
    """Another server writes the player's session."""
    assert play.server.parts.recovery is not None
    play.call(play.server.parts.recovery.session_lost, play.session(player))


@case(Reason.MOVED, Released)
async def _another_server_has_the_room() -> tuple[list[Event], Heard]:
    async with scene(hall(durability="commit"), store=FaultyStore()) as play:
        ada = await play.seated()
        _lose(play, ada)
        return play.events, await ada.closed_for()


# A seat ends


async def _seat_of(play: Scene, then: Callable[[Visitor], None]) -> tuple[list[Event], Heard]:
    ada = await play.seated()
    then(ada)
    return play.events, await ada.left_for()


async def _seat_of_who_is_away(play: Scene, then: Callable[[Visitor], None]) -> tuple[list[Event], Heard]:
    ada = await play.seated()
    ada.client.cut()
    await play.settled()
    then(ada)
    return play.events, await (await play.back(ada)).left_for()


@case(Reason.LEFT, PlayerLeft)
async def _they_leave() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _seat_of(play, lambda ada: ada.client.ask("leave"))


@case(Reason.KICKED, PlayerLeft)
async def _they_are_removed_from_the_room() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _seat_of(play, lambda ada: play.call(play.room(ada).players[0].kick, "be nice"))


@case(Reason.ROOM_CLOSED, PlayerLeft)
async def _the_room_ends() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _seat_of(play, lambda ada: play.call(play.room(ada).close))


@case(Reason.ROOM_FAILED, PlayerLeft)
async def _the_room_is_not_well() -> tuple[list[Event], Heard]:
    async with scene(hall(on_health_check=lambda _: False), health_s=1.0) as play:
        return await _seat_of(play, lambda _: None)


@case(Reason.JOIN_FAILED, PlayerLeft)
async def _the_game_refuses_them() -> tuple[list[Event], Heard]:
    async with scene() as play:
        ada = await play.enter("unloved")
        ada.client.ask("join_or_create", kind="hall")
        return play.events, await ada.left_for()


async def _fails(agent: RoomAgent[PlayerData]) -> None:
    raise ZeroDivisionError


@case(Reason.AGENT_FAILED, PlayerLeft, Ended)
async def _the_code_of_an_agent_fails() -> tuple[list[Event], Heard]:
    async with scene(allow_errors=ZeroDivisionError) as play:
        room = await play.server.create_room("hall")
        play.call(room.open_agent, "bot", _fails)
        (player,) = room.players
        await play.settled()
        inbox = seat_of(player).outlet
        assert isinstance(inbox, Inbox)
        assert isinstance(inbox.farewell, SeatLeft)
        return play.events, inbox.farewell.reason


@case(Reason.SEATED, SpectatorLeft)
async def _a_spectator_is_given_a_seat() -> tuple[list[Event], Heard]:
    async with scene(hall(max_spectators=1)) as play:
        ada = await play.seated()
        bob = await play.enter("bob")
        bob.client.ask("spectate", room=play.room(ada).id)
        await play.settled()
        room = play.room(ada)
        play.call(room.promote, room.spectators[0])
        return play.events, await bob.left_for()


@case(Reason.DROPPED, PlayerLeft)
async def _the_room_holds_no_seats() -> tuple[list[Event], Heard]:
    async with scene(hall(disconnect="hard")) as play:
        return await _seat_of_who_is_away(play, lambda _: None)


@case(Reason.ROUND_ENDED, PlayerLeft)
async def _the_round_ends_while_they_are_away() -> tuple[list[Event], Heard]:
    async with scene() as play:

        def end_round(ada: Visitor) -> None:
            play.call(play.room(ada).start)
            play.call(play.room(ada).end)

        return await _seat_of_who_is_away(play, end_round)


# A stranger is turned away


class Picky:
    """Knows who everybody is, and lets nobody in."""

    scheme = Named.scheme

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        raise Refused("no beta key")


async def _stranger(play: Scene, hello: Hello | None) -> tuple[list[Event], Heard]:
    return play.events, (await play.turned_away(hello)).reason


@case(Reason.AUTH_FAILED, SignInFailed, ConnectionRefused)
async def _the_credential_proves_nothing() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _stranger(play, Hello(Auth(Named.scheme, "")))


@case(Reason.AUTH_FAILED, SignInFailed, ConnectionRefused)
async def _nobody_knows_that_way_to_sign_in() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _stranger(play, Hello(Auth("palm_reading", "")))


@case(Reason.REFUSED, SignInFailed, ConnectionRefused)
async def _the_game_lets_nobody_in() -> tuple[list[Event], Heard]:
    async with scene(auth=[Picky()]) as play:
        return await _stranger(play, Hello(Auth(Named.scheme, "ada")))


@case(Reason.BANNED, SignInFailed, ConnectionRefused)
async def _who_is_banned_comes_again() -> tuple[list[Event], Heard]:
    async with scene() as play:
        await play.server.machine.do(play.operator().access.ban(Ban(player="ada")))
        return await _stranger(play, Hello(Auth(Named.scheme, "ada")))


@case(Reason.EXPIRED, ConnectionRefused)
async def _there_is_no_such_session() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _stranger(play, Hello(None, Resume("nobody", "x" * 43, [Position(1, 1, 0)])))


@case(Reason.ROLLED_BACK, ConnectionRefused)
async def _the_store_is_older_than_the_token() -> tuple[list[Event], Heard]:
    async with scene(hall(durability="commit"), store=FaultyStore()) as play:
        ada = await play.seated()
        play.call(play.session(ada).forked, None)
        return await _stranger(play, Hello(None, Resume(ada.session_id, "x" * 43, [Position(1, 1, 9)])))


@case(Reason.MOVED, ConnectionRefused)
async def _the_session_is_elsewhere() -> tuple[list[Event], Heard]:
    async with scene(hall(durability="commit"), store=FaultyStore()) as play:
        ada = await play.seated()
        _lose(play, ada)
        return await _stranger(play, Hello(None, Resume(ada.session_id, ada.welcome.token)))


@case(Reason.HELLO_TIMEOUT, ConnectionRefused)
async def _no_hello_comes() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _stranger(play, None)


@case(Reason.THROTTLED, ConnectionRefused)
async def _too_many_come_at_once() -> tuple[list[Event], Heard]:
    async with scene(sign_ins_per_s=0.001) as play:
        await play.enter("ada")
        return await _stranger(play, Hello(Auth(Named.scheme, "bob")))


@case(Reason.FLOODING, ConnectionRefused)
async def _who_has_flooded_is_back_at_once() -> tuple[list[Event], Heard]:
    async with scene(messages_burst=5, messages_per_s=1.0, violations_warned_max=1, violations_max=2) as play:
        ada = await play.seated()
        for seq in range(1, 40):
            ada.client.send(seq, Say("again"))
        await ada.client.closed()
        return await _stranger(play, Hello(None, Resume(ada.session_id, ada.welcome.token)))


@case(Reason.BUSY, ConnectionRefused)
async def _the_node_is_full() -> tuple[list[Event], Heard]:
    async with scene(connections_max=1) as play:
        await play.enter("ada")
        return await _stranger(play, None)


@case(Reason.PROTOCOL, ConnectionRefused)
async def _a_stranger_says_something_else() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _stranger(play, Hello())


@case(Reason.TOO_BIG, ConnectionRefused)
async def _a_hello_is_too_big() -> tuple[list[Event], Heard]:
    async with scene() as play:
        return await _stranger(play, Hello(Auth(Named.scheme, "a" * 5_000)))


@case(Reason.INTERNAL, ConnectionRefused)
async def _the_server_fails_before_the_welcome() -> tuple[list[Event], Heard]:
    async with scene(allow_errors=Exception) as play:
        _break(play, "hello")
        return await _stranger(play, Hello(Auth(Named.scheme, "ada")))


@case(Reason.STOPPING, ConnectionRefused)
async def _a_stranger_is_there_when_the_server_stops() -> tuple[list[Event], Heard]:
    async with scene() as play:
        client = await play.dial()
        await play.server.stop()
        return play.events, (await client.closed()).reason
