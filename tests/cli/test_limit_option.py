from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import holdfast
from holdfast import Limits, Throttled
from holdfast.cli.options import limit_option
from tests.cases import every_case
from tests.e2e.serving import serving

GAME = """
from holdfast import PlayerData, Room

class Hall(Room[PlayerData]):
    pass
"""


@click.command()
@limit_option
def command(limits: Limits) -> None:
    default = Limits()
    changed = [name for name in Limits.__dataclass_fields__ if getattr(limits, name) != getattr(default, name)]
    click.echo(" ".join(f"{name}={getattr(limits, name)!r}" for name in changed))


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


@every_case(
    ("wish", "advice"),
    [
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
