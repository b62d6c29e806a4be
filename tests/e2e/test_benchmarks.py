"""The benchmarks run, and the docs say what they measured. Nothing here is timed, and no peer is installed."""

import subprocess
import sys
from pathlib import Path

import msgspec
from benchmarks import report
from benchmarks.results import BENCHMARKS, LATEST, RESULTS, Results, read, read_about
from benchmarks.systems import ROOT, SYSTEMS


def test_one_command_measures_several_systems_and_writes_their_medians(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--tiny", "--only", "echo,tick", "--rounds", "1", "--no-install"]

    ran = subprocess.run(
        [*command, "--systems", "holdfast", "picows", "--results", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )

    assert ran.returncode == 0, ran.stderr
    results = read(tmp_path)
    assert set(results) == {"echo_cpu_us", "echo_p99_ms", "tick_cpu_us"}
    for systems in results.values():
        assert set(systems) == {"holdfast", "picows"}
        assert all(figure.median > 0 for figure in systems.values())
    assert read_about(tmp_path)["echo_cpu_us"].versions.keys() >= {"holdfast", "picows", "python"}


def test_the_results_name_benchmarks_systems_and_units_as_the_code_does() -> None:
    results = msgspec.json.decode((RESULTS / LATEST).read_bytes(), type=Results)

    for name, systems in results.items():
        assert set(systems) <= set(SYSTEMS)
        assert {figure.unit for figure in systems.values()} == {BENCHMARKS[name].unit}


def test_the_page_and_its_plots_show_the_latest_results() -> None:
    results = read()
    page = report.PAGE.read_text("utf-8")

    assert report.filled(page, results, read_about()) == page, "run `python -m benchmarks.report`"
    for name, svg in report.plots(results).items():
        assert (report.PAGE.parent / report.IMAGES / name).read_text("utf-8") == svg
        assert f"{report.IMAGES}/{name}" in page


def test_a_node_that_is_killed_is_measured_and_no_message_of_its_rooms_is_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.cluster_takeover", "--rooms", "6", "--kills", "1"]

    ran = subprocess.run(
        [*command, "--folder", str(tmp_path)], check=False, capture_output=True, text=True, timeout=170, cwd=ROOT
    )

    # Not whether it was quick: this machine does other things, too.
    assert "a room plays elsewhere" in ran.stdout, ran.stderr
    assert "0 lost, 0 doubled, 0 not resumed" in " ".join(ran.stdout.split())
