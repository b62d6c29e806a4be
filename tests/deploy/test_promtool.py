"""The alerts as Prometheus itself reads them: `promtool` checks the rules, and runs them on figures that are known."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # has no types of its own

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
PROMTOOL = shutil.which("promtool")
DEADLINE_S = 120.0

with_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="there is no promtool: it comes with Prometheus (Debian: apt install prometheus)"
)


def promtool(*words: str, folder: Path = PROMETHEUS) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run(
        [PROMTOOL, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )


@with_promtool
def test_prometheus_can_read_the_rules() -> None:
    result = promtool("check", "rules", "alerts.yml")

    assert result.returncode == 0, result.stdout + result.stderr


@with_promtool
def test_the_alerts_say_what_they_should_and_nothing_else() -> None:
    result = promtool("test", "rules", "alerts_test.yml")

    assert result.returncode == 0, result.stdout + result.stderr


@with_promtool
def test_an_alert_that_is_wrong_would_be_found(tmp_path: Path) -> None:
    rules = (PROMETHEUS / "alerts.yml").read_text("utf-8")
    (tmp_path / "alerts.yml").write_text(rules.replace("holdfast_store_failing == 1", "holdfast_store_failing == 2"))
    shutil.copy(PROMETHEUS / "alerts_test.yml", tmp_path)

    result = promtool("test", "rules", "alerts_test.yml", folder=tmp_path)

    assert result.returncode != 0
    assert "HoldfastStoreFailing" in result.stdout + result.stderr


def test_every_alert_is_told_in_one_of_the_tests() -> None:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"]
    tested = re.findall(r'alertname="(\w+)"}', (PROMETHEUS / "alerts_test.yml").read_text("utf-8"))

    assert {rule["alert"] for group in groups for rule in group["rules"]} == set(tested)
