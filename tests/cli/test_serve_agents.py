"""`holdfast serve` with a game whose rooms open agents: real processes, with the options that change how it runs."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import ClientRoom, Message
from tests.cli.served_games import write
from tests.cli.test_reload import reloading, url
from tests.cli.test_serve_listen import fact, tls_options
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import ANY_PORTS, end_of, holdfast_process, read_until
from tests.saved_sessions import storage_of, suspended
from tests.server.certificates import Certificates

GAME = """
    from holdfast import Message, PlayerData, Room, Throttled, on
    from words import GREETING

    class Say(Message):
        text: str

    class Said(Message):
        who: str
        text: str

    class Memory(PlayerData):
        heard: int = 0

    class Tavern(Room[Memory]):
        durability = "commit"
        state: dict

        def on_create(self, config):
            self.state = {"refused": 0}
            for number in (1, 2, 3):
                try:
                    self.open_agent(f"npc-{number}", self.live)
                except Throttled:
                    self.state["refused"] += 1

        def on_recover(self):
            for player in self.players:
                if player.is_agent:
                    self.open_agent(player.id.removeprefix("agent:"), self.live)

        @on(Say)
        def said(self, player, say):
            if player.is_agent:
                player.data.heard += 1
            self.broadcast(Said(player.id, say.text))

        async def live(self, agent):
            while True:
                said = await agent.receive(Said)
                if not said.who.startswith("agent:"):
                    agent.send(Say(f"{GREETING} {agent.data.heard}"))
"""


class Say(Message):
    text: str


class Said(Message):
    who: str
    text: str


@pytest.fixture
def game(tmp_path: Path) -> Path:
    write(tmp_path, 'GREETING = "hello"\n', "words.py")
    return write(tmp_path, GAME)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


async def answers(room: ClientRoom) -> dict[str, str]:
    """What the agents answer, as many as there are."""
    await room.send(Say("hi"))
    found: dict[str, str] = {}
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < 2:
            said = await room.receive(Said)
            if said.who.startswith("agent:"):
                found[said.who] = said.text
    return found


async def test_agents_play_on_after_a_killed_server_with_every_option(game: Path, certificates: Certificates) -> None:
    arguments = (
        *("serve", game.name, "--store", "sqlite:game.db", "--limit", "agents_max=2", "--recovery", "eager"),
        *(*tls_options(certificates), "--compression", "--no-http", "--log-format", "json"),
        *("--port", "0", "--tcp-port", "0"),
    )
    options: dict[str, Any] = {"messages": [Said], "ssl": certificates.trust}
    async with holdfast_process(*arguments, cwd=game.parent) as process:
        address = fact(await read_until(process, "Press Ctrl-C to stop"), "websocket")
        session = await holdfast.connect(address, **options)
        room = await session.join_or_create("tavern")
        first = await answers(room)
        second = await answers(room)
        saved = await suspended(session)
        process.kill()
        await process.wait()

    async with holdfast_process(*arguments, cwd=game.parent) as process:
        address = fact(await read_until(process, "Press Ctrl-C to stop"), "websocket")
        async with holdfast.connect(address, saved=storage_of(saved), **options) as session:
            assert session.room is not None
            third = await answers(session.room)
        result = await end_of(process, by=signal.SIGTERM)

    assert first == {"agent:npc-1": "hello 0", "agent:npc-2": "hello 0"}
    assert second == {"agent:npc-1": "hello 1", "agent:npc-2": "hello 1"}
    assert third == {"agent:npc-1": "hello 2", "agent:npc-2": "hello 2"}
    assert result.exit_code == 0
    assert "Traceback" not in result.stderr


async def test_agents_go_on_with_the_new_code_of_their_brain(game: Path) -> None:
    async with (
        reloading(game, "--limit", "agents_max=2") as (process, announcement),
        holdfast.connect(url(announcement), messages=[Said]) as session,
    ):
        room = await session.join_or_create("tavern")
        before = await answers(room)

        write(game.parent, 'GREETING = "welcome"\n', "words.py")
        await read_until(process, "Press Ctrl-C to stop")
        after = await answers(room)

    assert before == {"agent:npc-1": "hello 0", "agent:npc-2": "hello 0"}
    assert after == {"agent:npc-1": "welcome 1", "agent:npc-2": "welcome 1"}


async def test_a_server_with_agents_stops_at_once(game: Path) -> None:
    async with holdfast_process("serve", game.name, *ANY_PORTS, "--store", "memory:", cwd=game.parent) as process:
        address = url(await read_until(process, "Press Ctrl-C to stop"))
        async with holdfast.connect(address, messages=[Said]) as session:
            await session.join_or_create("tavern")
        result = await end_of(process, by=signal.SIGINT)

    assert (result.exit_code, result.stderr) == (0, "")
