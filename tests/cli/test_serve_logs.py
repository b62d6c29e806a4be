"""What `holdfast serve` logs: as text or JSON, quiet unless told otherwise, packets in a file of their own."""

import json
import signal
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

import holdfast
from holdfast import Auth, Message
from holdfast.schemas.frames import Hello
from tests.e2e.serving import (
    ANY_PORTS,
    end_of,
    holdfast_process,
    read_until,
    result_of,
    websocket_address,
)
from tests.server.raw_client import RawClient

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

# A second request is one too many.
SLOWLY = ("--limit", "requests_burst=1", "--limit", "requests_per_s=0.01")


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
    own = "from holdfast import Server, WebSocket\nserver = Server([Chat], listen=[WebSocket(port=0)])\n"
    game.write_text(game.read_text("utf-8") + own, "utf-8")
    return game


async def log_of(game: Path, *options: str, environment: dict[str, str] | None = None) -> tuple[str, str]:
    """What a server logs while one player plays and makes the game fail once; and that player's session."""
    arguments = ("serve", str(game), *ANY_PORTS, *options)
    async with holdfast_process(*arguments, environment=environment) as process:
        host, port = websocket_address(await read_until(process, "Press Ctrl-C to stop"))
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


@pytest.mark.parametrize("form", ["console", "json"])
async def test_addresses_are_in_no_line_of_a_run_with_everything_in_it(game: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / "packets.log"
    options = ("-vv", "--log-no-addresses", "--log-format", form, "--packet-log", str(file), *SLOWLY)
    async with holdfast_process("serve", str(game), *ANY_PORTS, *options) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        url = next(word for word in announcement.split() if word.startswith("ws://"))
        api = next(word for word in announcement.split() if word.startswith("http://")).removesuffix("/docs")
        async with httpx.AsyncClient(base_url=api, trust_env=False) as operator:
            await meet_everybody(url, operator)
        log = (await end_of(process, by=signal.SIGINT)).stderr

    packets = file.read_text("utf-8")
    for event in (
        *("session.opened", "session.resumed", "token.reused", "sign_in.failed", "limit.exceeded"),
        *("ban.set", "ban.lifted", "connection.refused"),
    ):
        assert event in log, event
    for line in ("the packet log is on", "the packet log is off", "hello auth="):
        assert line in packets, line
    assert [line for line in (log + packets).splitlines() if "127.0.0" in line or "203.0.113" in line] == []


async def meet_everybody(url: str, operator: httpx.AsyncClient) -> None:
    """A player who resumes, a thief, a stranger, one that does too much; they are looked at, and banned."""

    async def ask(method: str, path: str, body: dict[str, str] | None = None) -> None:
        (await operator.request(method, f"/v1/{path}", json=body)).raise_for_status()

    await ask("PUT", "packet-log/127.0.0.0%2F8")
    first, second, thief, stranger, vandal = [await RawClient.dial(url) for _ in range(5)]
    welcome = await first.sign_in()
    await second.resume(welcome)
    await second.request("search", kind="chat")
    thief.ask_to_resume(welcome)
    await thief.closed()
    stranger.say(Hello(Auth("guest", "nobody")))
    await stranger.closed()
    await vandal.sign_in()
    for _ in range(5):
        await vandal.request("search", kind="chat")
    await ask("DELETE", "packet-log/127.0.0.0%2F8")
    await ask("POST", "bans", {"address": "203.0.113.0/24"})
    await ask("DELETE", "bans/address:203.0.113.0%2F24")
    await ask("POST", "bans", {"address": "127.0.0.1", "why": "a cheat"})
    banned = await RawClient.dial(url)
    banned.say(Hello(Auth("guest", "")))
    await banned.closed()


async def test_packets_go_to_their_own_file(game: Path, tmp_path: Path) -> None:
    file = tmp_path / "packets.log"
    arguments = ("serve", str(game), *ANY_PORTS, "--packet-log", str(file))
    async with holdfast_process(*arguments) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
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
        await read_until(process, "Press Ctrl-C to stop")
        result = await end_of(process, by=signal.SIGINT)

    assert result.exit_code == 0
    assert all(json.loads(line)["logger"].startswith("holdfast") for line in result.stderr.splitlines())
