"""The party under drops and crashes, in virtual time and without sockets. Run it with: pytest examples/party"""

from collections.abc import Callable

import pytest
from examples.party.game import (
    AddBot,
    Begin,
    Finish,
    History,
    Party,
    PartyRoom,
    PickTeam,
    Ready,
    Remove,
    Said,
    Say,
)

from holdfast import ClientRoom, MessageRefused, NotSeated
from holdfast.testing import FaultyStore, MemoryServer, run

MESSAGES = [Party, Said, History]


async def until(room: ClientRoom, holds: Callable[[Party], bool]) -> Party:
    while not holds(party := await room.receive(Party)):
        pass
    return party


async def enter(server: MemoryServer, name: str, room_id: str = "") -> ClientRoom:
    session = await server.connect(name.lower(), messages=MESSAGES, name=name)
    return await session.join(room_id) if room_id else await session.join_or_create("party")


def test_the_game_starts_when_everybody_is_ready_and_the_host_says_so() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            bob = await enter(server, "Bob", ada.id)
            await bob.send(Ready(is_ready=True))
            await until(ada, lambda party: any(member.is_ready for member in party.members))

            await ada.send(Begin())
            refused = await ada.receive(MessageRefused)
            await ada.send(Ready(is_ready=True))
            await ada.send(Begin())

            assert refused.message == "somebody is not ready yet"
            started = await until(bob, lambda party: party.phase == "playing")
            assert [member.name for member in started.members if member.is_host] == ["Ada"]
            await ada.send(Finish())
            over = await until(bob, lambda party: party.phase == "lobby")
            assert not any(member.is_ready for member in over.members)

    run(play())


def test_a_drop_stops_the_countdown_and_a_return_continues_the_lobby() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            session = await server.connect("bob", messages=MESSAGES, name="Bob")
            bob = await session.join(ada.id)
            for room in (ada, bob):
                await room.send(Ready(is_ready=True))
            await until(ada, lambda party: all(member.is_ready for member in party.members))
            await ada.send(Begin())
            await until(ada, lambda party: party.starts_in_s is not None)

            server.link(session).cut()

            stopped = await until(ada, lambda party: party.starts_in_s is None)
            assert [member.name for member in stopped.members if not member.is_here] == ["Bob"]
            back = await until(ada, lambda party: all(member.is_here for member in party.members))
            assert back.phase == "lobby"

    run(play())


def test_a_team_hears_its_own_chat_and_nobody_else_does() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            bob = await enter(server, "Bob", ada.id)
            await bob.send(PickTeam("blue"))
            await ada.send(PickTeam("red"))

            await ada.send(Say("go left", to_team=True))
            await ada.send(Say("hello"))

            assert await ada.receive(Said) == Said("Ada", "go left", "red")
            assert await bob.receive(Said) == Said("Ada", "hello")
            cleo = await enter(server, "Cleo", ada.id)
            history = await cleo.receive(History)
            assert [line.text for line in history.lines if line.team == "blue"] == []

    run(play())


def test_the_party_survives_a_crash_with_its_bot_its_teams_and_its_chat() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            await ada.send(AddBot())
            await ada.send(Say("hello"))
            await ada.receive(Said)
            before = await until(ada, lambda party: sum(member.is_ready for member in party.members) == 1)

            server.crash()
            await server.start()

            after = await until(ada, lambda party: all(member.is_here for member in party.members))
            teams = {member.name: member.team for member in before.members}
            assert {member.name: member.team for member in after.members} == teams
            bob = await enter(server, "Bob", ada.id)
            assert (await bob.receive(History)).lines == [Said("Ada", "hello")]

    run(play())


def test_the_host_removes_somebody_and_nobody_else_can() -> None:
    async def play() -> None:
        async with MemoryServer([PartyRoom], store=FaultyStore()) as server:
            ada = await enter(server, "Ada")
            bob = await enter(server, "Bob", ada.id)
            party = await until(bob, lambda party: len(party.members) == 2)
            ids = {member.name: member.id for member in party.members}

            await bob.send(Remove(ids["Ada"]))
            refused = await bob.receive(MessageRefused)
            await ada.send(Remove(ids["Bob"]))

            assert refused.message == "only the host can do that"
            with pytest.raises(NotSeated, match="the host removed you from the party"):
                await until(bob, lambda party: False)

    run(play())
