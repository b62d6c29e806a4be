"""What `holdfast serve` logs: as text or JSON, quiet unless told otherwise, packets in a file of their own."""

import json
import signal
from pathlib import Path
from textwrap import dedent

import pytest

import holdfast
from holdfast import Message
from tests.e2e.serving import (
    ANY_PORTS,
    end_of,
    holdfast_process,
    read_until,
    result_of,
    websocket_address,
)

GAME = """
    from holdfast import Message, PlayerData, Room, on

    class Say(Message):
        text: str

    class Chat(Room[PlayerData]):
        @on(Say)
        def say(self, player, say):
            if say.text == "fail":
                raise LookupError("it failed")
            self.broadcast(say)
"""


class Say(Message):
    text: str


@pytest.fixture
def game(tmp_path: Path) -> Path:
    file = tmp_path / "game.py"
    file.write_text(dedent(GAME), "utf-8")
    return file


@pytest.fixture
def own_server(game: Path) -> Path:
    """A game that makes its server itself."""
    own = "from holdfast import Server\nserver = Server([Chat], port=0, tcp_port=None)\n"
    game.write_text(game.read_text("utf-8") + own, "utf-8")
    return game


async def log_of(game: Path, *options: str, environment: dict[str, str] | None = None) -> tuple[str, str]:
    """What a server logs while one player plays and makes the game fail once; and that player's session."""
    arguments = ("serve", str(game), *ANY_PORTS, *options)
    async with holdfast_process(*arguments, environment=environment) as process:
        host, port = websocket_address(await read_until(process, "Ctrl-C ends it"))
        async with holdfast.connect(f"ws://{host}:{port}", messages=[Say]) as session:
            room = await session.join_or_create("chat")
            await room.send(Say("fail"))
            await room.send(Say("on"))
            while not isinstance(await room.receive(), Say):
                pass
        return (await end_of(process, by=signal.SIGINT)).stderr, session.id


async def test_by_default_only_what_is_wrong_is_logged_for_people_to_read(game: Path) -> None:
    log, _ = await log_of(game)

    head, *more = log.splitlines()
    assert " ERROR holdfast.server: the game's code failed where=\"the handler of 'say'\" room=" in head
    assert more[0] == "    Traceback (most recent call last):"
    assert more[-1] == "    LookupError: it failed"


async def test_with_v_every_step_of_a_player_is_a_line(game: Path) -> None:
    log, session = await log_of(game, "-v")

    for event in ("session.opened", "player.joined", "session.ended"):
        assert f" INFO holdfast.events: {event} session={session} " in log
    assert "peer=127.0.0.1:" in log


@pytest.mark.parametrize(
    ("options", "environment"),
    [(("--log-format", "json"), {}), ((), {"HOLDFAST_LOG_FORMAT": "json"})],
    ids=["option", "environment"],
)
async def test_in_json_every_line_is_an_object(
    game: Path, options: tuple[str, ...], environment: dict[str, str]
) -> None:
    log, session = await log_of(game, "-vv", *options, environment=environment)

    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"time", "level", "logger", "event"} <= line.keys() for line in lines)
    (opened,) = [line for line in lines if line["event"] == "session.opened"]
    assert (opened["level"], opened["logger"], opened["session"]) == ("info", "holdfast.events", session)
    (failed,) = [line for line in lines if line["level"] == "error"]
    assert failed["exception"].endswith("LookupError: it failed")


async def test_addresses_can_be_kept_out(game: Path) -> None:
    log, session = await log_of(game, "-v", "--log-no-addresses")

    assert f"session.opened session={session}" in log
    assert "127.0.0.1" not in log


async def test_packets_go_to_their_own_file(game: Path, tmp_path: Path) -> None:
    file = tmp_path / "packets.log"
    arguments = ("serve", str(game), *ANY_PORTS, "--packet-log", str(file))
    async with holdfast_process(*arguments) as process:
        announcement = await read_until(process, "Ctrl-C ends it")
        host, port = websocket_address(announcement)
        api = next(word for word in announcement.split() if word.startswith("http://")).removesuffix("/docs")
        on = await result_of("packets", "on", "127.0.0.1", "--url", api)
        async with holdfast.connect(f"ws://{host}:{port}", messages=[Say]) as session:
            await session.join_or_create("chat")
        result = await end_of(process, by=signal.SIGINT)

    assert on.exit_code == 0, on.stderr
    assert result.stderr == ""
    written = file.read_text("utf-8")
    assert " INFO holdfast.packets: packet direction=in session='' " in written
    assert "\n    hello auth=" in written
    assert session.credential not in written


async def test_a_packet_log_that_cannot_be_written_is_said_before_anything_opens(game: Path, tmp_path: Path) -> None:
    result = await result_of("serve", str(game), *ANY_PORTS, "--packet-log", str(tmp_path / "none" / "packets.log"))

    assert result.exit_code == 1
    assert "cannot be written: No such file or directory." in result.stderr


async def test_a_game_s_own_server_takes_the_options_of_the_log(own_server: Path) -> None:
    async with holdfast_process("serve", str(own_server), "-v", "--log-format", "json") as process:
        await read_until(process, "Ctrl-C ends it")
        result = await end_of(process, by=signal.SIGINT)

    assert result.exit_code == 0
    assert all(json.loads(line)["logger"].startswith("holdfast") for line in result.stderr.splitlines())
