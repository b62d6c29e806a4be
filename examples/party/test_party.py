"""The party under drops and crashes, in virtual time and without sockets. Run it with: pytest examples/party"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from examples.party.game import (
    AddBot,
    Begin,
    Finish,
    Lobby,
    PartyMember,
    PartyRoom,
    PickTeam,
    Ready,
    Remove,
    Said,
    Say,
)

from holdfast import ClientRoom, Refused, SessionEnded
from holdfast.testing import FaultyStore, MemoryServer, run


class Guest:
    """Somebody in the party: looks at what the room shares."""

    def __init__(self, player_id: str, room: ClientRoom) -> None:
        self.id = player_id
        self.room = room
        self._changed = asyncio.Event()
        room.on_change(lambda _: self._changed.set())
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with suppress(SessionEnded):
            async for _ in self.room:
                pass
        self._changed.set()

    async def until(self, holds: Callable[["Guest"], bool]) -> None:
        while self.room.state is None or not holds(self):
            self._changed.clear()
            await self._changed.wait()

    @property
    def lobby(self) -> Lobby:
        lobby: Lobby = self.room.state
        return lobby

    @property
    def members(self) -> list[PartyMember]:
        return list(self.room.players.values())

    @property
    def chat(self) -> list[Said]:
        chat: list[Said] = self.room.mine.chat
        return chat


async def enter(server: MemoryServer, name: str, party: Guest | None = None) -> Guest:
    session = await server.connect(name.lower(), name=name, state=Lobby, data=PartyMember)
    room = await session.join(party.room.id) if party else await session.join_or_create("party")
    return Guest(session.player_id, room)


def everybody_is_here(guest: Guest) -> bool:
    return all(member.is_here for member in guest.members)


def test_the_game_starts_when_everybody_is_ready_and_the_host_says_so() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            bob = await enter(server, "Bob", ada)
            await bob.room.ask(Ready(is_ready=True))

            with pytest.raises(Refused, match="somebody is not ready yet"):
                await ada.room.ask(Begin())
            await ada.room.ask(Ready(is_ready=True))
            await ada.room.ask(Begin())

            await bob.until(lambda bob: bob.lobby.is_playing)
            assert bob.lobby.host == ada.id
            await ada.room.ask(Finish())
            await bob.until(lambda bob: not bob.lobby.is_playing)
            assert not any(member.is_ready for member in bob.members)

    run(play())


def test_a_drop_stops_the_countdown_and_a_return_continues_the_lobby() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            bob = await enter(server, "Bob", ada)
            for guest in (ada, bob):
                await guest.room.ask(Ready(is_ready=True))
            await ada.room.ask(Begin())
            await ada.until(lambda ada: ada.lobby.starts_in_s > 0)

            server.link(server.clients[1]).cut()

            await ada.until(lambda ada: ada.lobby.starts_in_s == 0)
            assert [member.name for member in ada.members if not member.is_here] == ["Bob"]
            await ada.until(everybody_is_here)
            assert not ada.lobby.is_playing

    run(play())


def test_a_team_hears_its_own_chat_and_nobody_else_does() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            bob = await enter(server, "Bob", ada)
            await bob.room.ask(PickTeam("blue"))
            await ada.room.ask(PickTeam("red"))

            await ada.room.ask(Say("go left", to_team=True))
            await ada.room.ask(Say("hello"))

            await ada.until(lambda ada: len(ada.chat) == 2)
            await bob.until(lambda bob: len(bob.chat) == 1)
            assert ada.chat == [Said("Ada", "go left", "red"), Said("Ada", "hello")]
            assert bob.chat == [Said("Ada", "hello")]
            assert all(member.chat == [] for member in bob.members)
            cleo = await enter(server, "Cleo", ada)
            await cleo.until(lambda cleo: cleo.chat == [Said("Ada", "hello")])

    run(play())


def test_the_party_survives_a_crash_with_its_bot_its_teams_and_its_chat() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            await ada.room.ask(AddBot())
            await ada.room.ask(Say("hello"))
            await ada.until(lambda ada: [member.is_ready for member in ada.members] == [False, True])
            teams = [(member.name, member.team) for member in ada.members]

            server.crash()
            await server.start()
            bob = await enter(server, "Bob", ada)
            await ada.until(lambda ada: len(ada.members) == 3 and everybody_is_here(ada))

            assert [(member.name, member.team) for member in ada.members][:2] == teams
            await bob.until(lambda bob: bob.chat == [Said("Ada", "hello")])

    run(play())


def test_the_host_removes_somebody_and_nobody_else_can() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            bob = await enter(server, "Bob", ada)

            with pytest.raises(Refused, match="only the host can do that"):
                await bob.room.ask(Remove(ada.id))
            await ada.room.ask(Remove(bob.id))

            await bob.until(lambda bob: bob.room.left is not None)
            await ada.until(lambda ada: len(ada.members) == 1)
            assert bob.room.left is not None
            assert bob.room.left.message == "the host removed you from the party"

    run(play())


def test_a_player_who_is_called_like_a_bot_does_not_keep_bots_away() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "B0t 1")
            await ada.room.ask(AddBot())
            await ada.room.ask(AddBot())

            server.crash()
            await server.start()

            await ada.until(lambda ada: len(ada.members) == 3 and everybody_is_here(ada))
            assert [member.name for member in ada.members] == ["B0t 1", "Bot 1 (2)", "Bot 2"]

    run(play())


def test_a_game_begins_in_the_lobby_and_ends_once() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            await ada.room.ask(Ready(is_ready=True))

            with pytest.raises(Refused, match="no game is on"):
                await ada.room.ask(Finish())
            await ada.room.ask(Begin())
            await ada.until(lambda ada: ada.lobby.is_playing)

            with pytest.raises(Refused, match="the game is on already"):
                await ada.room.ask(Begin())

    run(play())
