"""What operators see of a session: who, from where, over what, and how much."""

import asyncio
from typing import Any

from holdfast import Auth, ClientRoom, ClientSession, Limits, Message, Player, PlayerData, Room, on
from holdfast.identity import Approach, Guest, Identity, Password
from holdfast.schemas.events import Ended
from holdfast.schemas.session import SessionInfo
from holdfast.testing import FaultyStore, MemoryServer
from tests.identity.plain import PlainHashing
from tests.observability.look import in_virtual_time, look_at

SECRET = "correct horse"


class Say(Message):
    text: str


class Table(Room[PlayerData]):
    """Repeats what is said."""

    grace_s = 600.0

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        player.send(say)


class Vault(Table):
    durability = "commit"


class Badge:
    """Believes a name, and gives everybody a role."""

    scheme = "badge"

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        return Identity(credential, frozenset({"gm", "tester"}), account=f"{credential}@home")


async def sit_down(
    server: MemoryServer, kind: str = "table", *, name: str = "ada", **options: Any
) -> tuple[ClientSession, ClientRoom]:
    session = await server.connect(name, messages=[Say], **options)
    return session, await session.join_or_create(kind)


async def say(room: ClientRoom, *texts: str) -> None:
    """Say something, and wait until the room has repeated it."""
    for text in texts:
        await room.send(Say(text))
    while (await room.receive()) != Say(texts[-1]):
        pass


async def come_back(server: MemoryServer, session: ClientSession) -> None:
    back = asyncio.Event()
    session.on_resume(lambda _: back.set())
    server.link(session).cut()
    await back.wait()


def shown(server: MemoryServer, session: ClientSession) -> SessionInfo:
    return server.operate.sessions.get(session.id)


@in_virtual_time
async def test_a_session_is_shown_with_its_account_roles_address_connection_and_codec() -> None:
    async with MemoryServer([Table], auth=[Badge()]) as server:
        await asyncio.sleep(7.0)
        ada, _ = await sit_down(server, auth=Auth("badge", "ada"))
        await asyncio.sleep(5.0)

        info = shown(server, ada)

        kept = server.sessions.get(ada.id)
        assert kept is not None
        assert kept.connection is not None
        assert (info.account, info.roles) == ("ada@home", ["gm", "tester"])
        assert info.address == kept.address != ""
        assert (info.connection, info.connection_state) == (kept.connection.id, "in_game")
        assert (info.transport, info.codec) == ("memory", "holdfast.v1.msgpack")
        assert 5.0 <= info.connected_s < 6.0
        assert info.signed_in_at == kept.signed_in_at >= 7.0


@in_virtual_time
async def test_a_disconnected_session_shows_its_last_address_and_no_connection() -> None:
    async with MemoryServer([Table]) as server:
        ada, _ = await sit_down(server)
        address = shown(server, ada).address
        server.dialer(ada).is_down = True
        server.link(ada).cut()
        await asyncio.sleep(0.5)

        info = shown(server, ada)

        assert info.status == "disconnected"
        assert info.address == address
        assert (info.connection, info.connection_state, info.connected_s) == ("", "", 0.0)


@in_virtual_time
async def test_messages_and_bytes_are_counted_over_drops_takeovers_and_rooms() -> None:
    async with MemoryServer([Table, Vault], store="memory:") as server:
        ada, room = await sit_down(server)
        await say(room, "one", "two")
        first = shown(server, ada)
        assert (first.messages_in, first.messages_out) == (2, 2)
        assert first.bytes_in > len("onetwo")

        await come_back(server, ada)
        await say(room, "three")
        second = shown(server, ada)
        assert (second.messages_in, second.messages_out) == (3, 3)
        assert second.bytes_in > first.bytes_in
        assert second.bytes_out > first.bytes_out

        await room.leave()
        other = await ada.join_or_create("vault")
        await say(other, "four")
        third = shown(server, ada)
        # The end of the first seat was a message too.
        assert (third.messages_in, third.messages_out) == (4, 5)

        counters = server.counters
        assert (third.bytes_in, third.bytes_out) <= (counters.bytes_received, counters.bytes_sent)


@in_virtual_time
async def test_messages_that_could_not_be_kept_still_count() -> None:
    async with MemoryServer([Table], limits=Limits(kept_messages_max=4)) as server:
        ada, room = await sit_down(server)
        await say(room, "one", "two", "three")
        player = server.rooms.get(room.id).players[0]  # type: ignore[union-attr]  # it is there
        server.dialer(ada).is_down = True
        server.link(ada).cut()
        await asyncio.sleep(0.5)
        for _ in range(10):
            player.send(Say("lost"))
        assert player.session.channel is not None
        assert player.session.channel.overflowed

        back = asyncio.Event()
        ada.on_resume(lambda _: back.set())
        server.dialer(ada).is_down = False
        await back.wait()
        await say(room, "four")

        info = shown(server, ada)
        assert info.messages_in == 4
        assert info.messages_out >= 4


@in_virtual_time
async def test_the_account_of_a_password_is_shown_of_its_sessions_and_its_player_also_after_a_crash() -> None:
    password = Password(hashing=PlainHashing(), register=True)
    async with MemoryServer([Vault], auth=[Guest(), password], store=FaultyStore()) as server:
        await password.create_account("Ada", SECRET, roles=["tester"])
        ada, room = await sit_down(server, "vault", auth=Auth.password("ADA", SECRET))
        guest, _ = await sit_down(server, "vault", auth=Auth("guest", ""))

        assert shown(server, ada).account == "ada"
        assert shown(server, guest).account == ""
        player = server.operate.players.look(ada.player_id)
        assert (player.account, player.roles) == ("ada", ["tester"])
        await guest.link(Auth.password("bob", SECRET))
        assert shown(server, guest).account == "bob"

        await say(room, "hello")
        server.crash()
        await server.start()

        info = shown(server, ada)
        assert (info.account, info.roles) == ("ada", ["tester"])
        # From its saved channel; bytes belong to the connections of a process.
        assert (info.messages_in, info.messages_out) == (1, 1)


@in_virtual_time
async def test_an_agent_is_shown_without_codec_address_and_numbers() -> None:
    async with MemoryServer([Table]) as server:
        agent = server.open_agent("bot", roles=["npc"])

        info = server.operate.sessions.get(agent.session.id)

        assert (info.transport, info.codec, info.address, info.roles) == ("agent", "", "", ["npc"])
        assert (info.messages_in, info.bytes_out) == (0, 0)


@in_virtual_time
async def test_the_duration_of_an_ended_session_is_an_event_and_a_metric_also_over_a_crash() -> None:
    async with MemoryServer([Vault], store=FaultyStore()) as server:
        await asyncio.sleep(7.0)
        ada, _ = await sit_down(server, "vault")
        await asyncio.sleep(100.0)
        server.crash()
        await server.start()
        ended: list[Ended] = []
        server.on(Ended, ended.append)
        await asyncio.sleep(50.0)

        await server.operate.sessions.end(ada.id, "")

        look = await look_at(server)
        assert 150.0 <= ended[0].duration_s < 160.0
        assert look.value("session_seconds_count") == 1
        assert look.value("session_seconds_sum") == ended[0].duration_s
