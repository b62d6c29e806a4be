import json
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import holdfast
from holdfast import Limits, Throttled
from holdfast.cli.options import limit_option
from tests.cases import every_case
from tests.e2e.serving import (
    ANY_PORTS,
    end_of,
    holdfast_process,
    http_address,
    read_until,
    result_of,
    serving,
    websocket_address,
)

GAME = """
from holdfast import PlayerData, Room

class Hall(Room[PlayerData]):
    pass
"""


@click.command()
@limit_option
def command(limits: Limits) -> None:
    default = Limits()
    for role, of_role in limits.by_role.items():
        click.echo(f"{role}: {' '.join(f'{name}={value!r}' for name, value in of_role.values().items())}")
    changed = [name for name in Limits.__dataclass_fields__ if getattr(limits, name) != getattr(default, name)]
    click.echo(" ".join(f"{name}={getattr(limits, name)!r}" for name in changed if name != "by_role"))


def answer(*wishes: str) -> str:
    result = CliRunner().invoke(command, [word for wish in wishes for word in ("--limit", wish)])
    return result.output.strip().splitlines()[-1] if result.output.strip() else ""


def test_limits_are_changed_one_by_one() -> None:
    assert answer() == ""
    assert answer("messages_per_s=500", "rooms_max=3", "flood_policy=drop") == (
        "messages_per_s=500.0 flood_policy='drop' rooms_max=3"
    )


def test_a_name_may_be_written_with_dashes_and_a_number_with_its_thousands() -> None:
    assert answer("rooms-max = 1_000") == "rooms_max=1000"


def test_limits_of_a_role_are_named_after_it() -> None:
    wishes = ["gm.messages-per-s=1_000", "game master.idle_s=0", "gm.messages_burst=7", "a.b.idle_s=2.5", "idle_s=3"]
    result = CliRunner().invoke(command, [word for wish in wishes for word in ("--limit", wish)])

    assert result.output.splitlines() == [
        "gm: messages_burst=7 messages_per_s=1000.0",
        "game master: idle_s=0.0",
        "a.b: idle_s=2.5",
        "idle_s=3.0",
    ]


@every_case(
    ("wish", "advice"),
    [
        ("gm.mesages_per_s=3", "there is no limit 'mesages_per_s': did you mean messages_per_s?"),
        (
            "gm.rooms_max=3",
            "gm.rooms_max cannot be set for a role, as in gm.messages_per_s=500; use messages_burst, messages_per_s,"
            " latest_burst, latest_per_s, requests_burst, requests_per_s, bytes_burst, bytes_per_s, idle_s,"
            " session_age_max_s, sessions_per_player_max, rooms_per_player_max",
        ),
        ("gm.messages_per_s=0", "messages_per_s must be above 0; got 0"),
        ("by_role=3", "the limits of a role are set one by one, as in gm.messages_per_s=500"),
        ("mesages_per_s=3", "there is no limit 'mesages_per_s': did you mean messages_per_s?"),
        ("lane-pause-s=3", "the limit lane_pause_s is now fair_queue_pause_s"),
        (
            "unopened_per_address_max=3",
            "the limit unopened_per_address_max was removed: use address_share, the part of unopened_max that one"
            " address may hold, as in 0.25",
        ),
        ("xyzzy=3", "there is no limit 'xyzzy': docs/guide/limits.md lists all of them."),
        ("rooms_max", "rooms_max needs a value, as in rooms_max=20000"),
        ("rooms_max=", "rooms_max needs a value, as in rooms_max=20000"),
        ("rooms_max=2.5", "rooms_max must be a whole number, as in rooms_max=20000; got '2.5'"),
        ("idle_s=soon", "idle_s must be a number, as in idle_s=1800.0; got 'soon'"),
        ("idle_s=-1", "idle_s must be 0 or more; got -1"),
        ("messages_per_s=0", "messages_per_s must be above 0; got 0"),
        ("flood_policy=ban", "flood_policy must be one of warn, drop, disconnect; got 'ban'"),
    ],
)
def test_a_mistake_is_told_with_what_to_do_about_it(wish: str, advice: str) -> None:
    assert answer(wish) == f"Error: Invalid value for '--limit': {advice}"


async def test_a_server_keeps_to_the_limits_it_was_started_with(tmp_path: Path) -> None:
    game = tmp_path / "game.py"
    game.write_text(GAME, "utf-8")

    limit = ("--limit", "rooms_per_player_max=1")
    async with serving(game, *limit) as (host, port), holdfast.connect(f"ws://{host}:{port}") as session:
        await session.create("hall")

        with pytest.raises(Throttled):
            await session.create("hall")


async def test_a_running_game_limits_a_role_and_one_session_from_the_command_line(tmp_path: Path) -> None:
    game = tmp_path / "game.py"
    game.write_text(GAME, "utf-8")

    limit = ("--limit", "gm.requests_per_s=777")
    async with holdfast_process("serve", str(game), *ANY_PORTS, *limit) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        host, port = websocket_address(announcement)
        environment = {"HOLDFAST_URL": "http://{}:{}".format(*http_address(announcement))}

        async def told(*words: str) -> str:
            result = await result_of(*words, environment=environment)
            assert result.exit_code == 0, result.stderr
            return result.stdout.strip()

        async with holdfast.connect(f"ws://{host}:{port}") as ada:
            own = await told("sessions", "limit", ada.id, "messages-burst=5", "idle_s=0")
            assert own == f"Limits of session {ada.id}: messages_burst = 5, idle_s = 0."
            assert await told("players", "grant", ada.player_id, "gm") == f"Player {ada.player_id} has the role gm."
            both = json.loads(await told("sessions", "show", ada.id, "--json"))
            assert both["limits"] == {"requests_per_s": 777, "messages_burst": 5, "idle_s": 0}
            assert both["roles"] == ["gm"]

            undone = await told("sessions", "limit", ada.id, "messages_burst=default", "idle_s=default")
            assert undone == f"Limits of session {ada.id}: requests_per_s = 777."
            await told("players", "revoke", ada.player_id, "gm")
            none = await told("sessions", "limit", ada.id, "idle_s=default")
            assert none == f"Limits of session {ada.id}: those of the server."

            wrong = await result_of("sessions", "limit", ada.id, "rooms_max=5", environment=environment)
            assert wrong.exit_code == 1
            assert "these can: messages_burst, messages_per_s" in " ".join(wrong.stderr.split())
            for mistake in ("idle_s", "idle_s=soon", "idle_s=inf", "=5"):
                result = await result_of("sessions", "limit", ada.id, mistake, environment=environment)
                assert result.exit_code == 2
                assert "A limit must be NAME=VALUE" in result.stderr
        assert (await end_of(process, by=signal.SIGINT)).exit_code == 0
