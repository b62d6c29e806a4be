"""`holdfast bench`: it loads a game, counts by itself, and judges."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import Raw

from holdfast.cli.bench.bot import CountingProtocol
from holdfast.cli.bench.command import Objectives, judge
from holdfast.cli.bench.run import Measured
from holdfast.cli.bench.tally import Histogram, LoadTally, ServerReport
from holdfast.cli.main import main
from holdfast.client.channels import Arrived
from holdfast.core.codec import MSGPACK
from holdfast.core.limits import Limits
from tests.cases import every_case
from tests.e2e.serving import result_of

ANYTHING = Objectives(p99_ms=None, cpu_percent=None, memory_mib=None, lost=0, duplicated=0)


async def test_a_new_game_is_loaded_by_its_own_bot_while_connections_break(tmp_path: Path) -> None:
    await result_of("new", "game", cwd=tmp_path)
    options = ("--clients", "6", "--seconds", "1", "--drop-rate", "2", "--p99-ms", "60000")

    result = await result_of("bench", "game.py", "--bot", "bot.py", *options, cwd=tmp_path / "game")

    assert result.exit_code == 0, result.stdout + result.stderr
    assert "✓ lost 0, at most 0\n✓ duplicated 0, at most 0\n✓ p99, asked and answered," in result.stdout
    assert " players per core" in result.stdout
    assert " resumed, 0 resynced, 0 reset; messages replayed: " in result.stdout


def measured(**changes: object) -> Measured:
    """A run without a flaw: ten messages were sent, acknowledged and applied."""
    tally = LoadTally(sent=10, acknowledged=10, received=10)
    server = ServerReport(cpu_s=1.0, memory_mib=50.0, applied=10, repeated=0, throttled=0, has_agents=False)
    run = Measured(took_s=10.0, tally=tally, server=server, server_cpu_s=1.0)
    for name, value in changes.items():
        for part in (tally, run):
            if hasattr(part, name):
                setattr(part, name, value)
    return run


def server(applied: int, *, has_agents: bool = False) -> ServerReport:
    return ServerReport(cpu_s=1.0, memory_mib=50.0, applied=applied, repeated=0, throttled=0, has_agents=has_agents)


def failed(run: Measured, objectives: Objectives = ANYTHING) -> list[str]:
    return [words.split(",")[0] for is_met, words in judge(run, objectives) if not is_met]


def test_a_run_without_a_flaw_meets_its_objectives() -> None:
    assert failed(measured(), Objectives(None, cpu_percent=10.0, memory_mib=50.0, lost=0, duplicated=0)) == []


@every_case(
    ("flaw", "words"),
    [
        ({"lost": 1}, "✗ lost 1"),
        ({"unconfirmed": 2}, "✗ lost 2"),
        ({"duplicated": 1}, "✗ duplicated 1"),
        ({"server": server(applied=9)}, "✗ lost 1"),
        ({"server": server(applied=12)}, "✗ duplicated 2"),
        ({"failed": 3}, "✗ 3 bots failed"),
    ],
)
def test_what_goes_wrong_fails_the_run(flaw: dict[str, object], words: str) -> None:
    assert failed(measured(**flaw)) == [words]


def test_what_agents_send_is_not_taken_for_duplicated() -> None:
    assert failed(measured(server=server(applied=12, has_agents=True))) == []


def test_an_objective_that_was_not_measured_is_not_met() -> None:
    assert failed(measured(), Objectives(p99_ms=1.0, cpu_percent=None, memory_mib=None, lost=0, duplicated=0)) == [
        "✗ p99"
    ]


def test_a_bot_counts_what_is_left_out_and_what_comes_twice_by_itself() -> None:
    protocol = CountingProtocol(MSGPACK, None, Limits())
    protocol.count_in(tally := LoadTally())

    for seq in (1, 2, 5, 5, 6):
        protocol.count(Arrived("session", 1, 1, seq, "say", Raw(b"")))

    assert (tally.received, tally.lost, tally.duplicated) == (5, 2, 1)


def test_a_histogram_is_right_to_within_its_buckets_and_can_be_merged() -> None:
    slow, fast = Histogram(), Histogram()
    for _ in range(99):
        fast.add(0.001)
    slow.add(1.0)
    fast.merge(slow)

    assert fast.within_ms(0.5) == pytest.approx(1.0, rel=0.06)
    assert fast.within_ms(0.99) == pytest.approx(1.0, rel=0.06)
    assert fast.within_ms(1.0) == pytest.approx(1000.0, rel=0.06)
    assert sum(count for *_, count in fast.bands()) == 100


@every_case(
    ("arguments", "advice"),
    [
        ((), "Give a GAME to serve"),
        (("game.py", "--url", "ws://127.0.0.1:1"), "Give a GAME to serve"),
        (("--url", "ws://game.example"), "add --remote"),
        (("--url", "ws://127.0.0.1:1", "--cpu-percent", "50"), "give GAME"),
        (("--url", "ws://127.0.0.1:1", "--store", "sqlite:game.db"), "give GAME"),
        (("game.py",), "`async def play(session)`"),
    ],
)
def test_a_command_that_makes_no_sense_says_what_to_do(tmp_path: Path, arguments: tuple[str, ...], advice: str) -> None:
    (tmp_path / "nothing.py").write_text("", "utf-8")

    result = CliRunner().invoke(main, ["bench", *arguments, "--bot", str(tmp_path / "nothing.py")])

    assert result.exit_code != 0
    assert advice in result.stderr
