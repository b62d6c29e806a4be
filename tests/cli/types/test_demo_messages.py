"""The demo's page is written against what `holdfast types` makes of the demo's game."""

from pathlib import Path

from tests.e2e.serving import result_of

ROOT = Path(__file__).parents[3]


async def test_the_messages_of_the_demo_are_up_to_date() -> None:
    game, types = ROOT / "src/holdfast/cli/demo/arena.py", ROOT / "web/demo/src/messages.ts"
    result = await result_of("types", str(game), "--lang", "ts", "--out", str(types), "--check")

    assert result.exit_code == 0, result.stdout + result.stderr
