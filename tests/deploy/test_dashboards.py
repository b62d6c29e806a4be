"""What the dashboard draws and the alerts look at is there: checked against what a running node shows after a game."""

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]  # has no types of its own

from holdfast.schemas.events import ROOM_FAILURES
from tests.cases import every_case
from tests.deploy.game import Game, Scrape, play
from tests.deploy.promql import Expression, Series

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "holdfast.json").read_text("utf-8"))
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8"))
PROMETHEUS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))

# What Prometheus adds to every series, and a node of a cluster to its own; the one series that Prometheus makes itself.
FROM_PROMETHEUS = {"job", "instance", "node"}
MADE_BY_PROMETHEUS = {"up"}
OF_SESSIONS = tuple(f"holdfast_session_{each}" for each in ("latency", "jitter", "kept", "drops", "resumes"))
PER_SECOND = {"rate", "increase", "irate"}
# What has happened since the start counts until the next: it is not over by itself.
COUNTED_WHOLE = {("why", "set_aside")}
DURATION = re.compile(r"(\d+(ms|s|m|h|d))+")


class Query(NamedTuple):
    """An expression, and where it stands."""

    where: str
    text: str


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def queries() -> Iterator[Query]:
    for panel in panels():
        yield from (Query(f"panel {panel['title']}", target["expr"]) for target in panel["targets"])
    yield from (Query(f"alert {rule['alert']}", rule["expr"]) for rule in rules())


QUERIES = list(queries())
IDS = [f"{query.where} {number}" for number, query in enumerate(QUERIES)]


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Game:
    return asyncio.run(play(tmp_path_factory.mktemp("game")))


@pytest.fixture(scope="module")
def scrape(game: Game) -> Scrape:
    return game.scrapes[-1]


# Expressions


def complaints(query: str, scrape: Scrape) -> list[str]:
    """What is wrong with an expression, beside what a node shows."""
    expression = Expression(query)
    found = [complaint for series in expression.series for complaint in wrong_with(series, scrape)]
    known = set(FROM_PROMETHEUS)
    for series in expression.series:
        if series.name in scrape.by_series:
            known |= scrape.by_series[series.name].labels(series.name)
    found += [f"nothing in it has the label {label}" for label in sorted(expression.grouped_by - known)]
    if "histogram_quantile" in query and "le" not in expression.grouped_by:
        found.append("a quantile needs le")
    return found


def wrong_with(series: Series, scrape: Scrape) -> Iterator[str]:
    if series.name in MADE_BY_PROMETHEUS:
        return
    family = scrape.by_series.get(series.name)
    if family is None:
        yield f"there is no {series.name}"
        return
    for label, value in series.labels.items():
        if label in FROM_PROMETHEUS:
            continue
        if label not in family.labels(series.name):
            yield f"{series.name} has no label {label}"
        elif label == "le" and value not in {dict(labels)["le"] for labels in family.series[series.name]}:
            yield f"{series.name} has no bucket {value}"
    only_grows = family.type in {"counter", "histogram"} and COUNTED_WHOLE.isdisjoint(series.labels.items())
    if only_grows and not (series.function in PER_SECOND and series.has_range):
        yield f"{series.name} only grows: what counts is its rate or increase"
    if family.type == "gauge" and (series.function in PER_SECOND or series.has_range):
        yield f"{series.name} is a gauge, and has no rate"


@every_case("query", QUERIES, ids=IDS)
def test_an_expression_is_about_what_a_node_shows(query: Query, scrape: Scrape) -> None:
    assert complaints(query.text, scrape) == []


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("sum(rate(holdfast_no_such_total[5m]))", "there is no holdfast_no_such_total"),
        ('holdfast_rooms{color="red"}', "holdfast_rooms has no label color"),
        ("sum by (color) (holdfast_rooms)", "nothing in it has the label color"),
        ("holdfast_turns_total", "holdfast_turns_total only grows: what counts is its rate or increase"),
        ("sum(holdfast_turn_seconds_bucket)", "holdfast_turn_seconds_bucket only grows: what counts is its rate"),
        ("rate(holdfast_rooms[5m])", "holdfast_rooms is a gauge, and has no rate"),
        ("histogram_quantile(0.9, sum(rate(holdfast_turn_seconds_bucket[5m])))", "a quantile needs le"),
        ("rate(holdfast_turn_seconds[5m])", "there is no holdfast_turn_seconds"),
        ('increase(holdfast_loop_lag_seconds_bucket{le="0.7"}[5m])', "has no bucket 0.7"),
    ],
)
def test_a_wrong_expression_is_found(query: str, complaint: str, scrape: Scrape) -> None:
    (found,) = complaints(query, scrape)

    assert complaint in found


@pytest.mark.parametrize("query", ["sum(up", "sum(up))", 'up{job="x"', "up{job holdfast}", "sum by instance (up)"])
def test_what_is_no_expression_is_found(query: str) -> None:
    with pytest.raises(ValueError, match=r"missing|closes nothing|too early|no matcher"):
        Expression(query)


def test_every_metric_is_drawn_or_watched_unless_it_is_of_single_sessions(scrape: Scrape) -> None:
    used = {series.name for query in QUERIES for series in Expression(query.text).series}
    families = {name: family for name, family in scrape.families.items() if name.startswith("holdfast_")}

    unused = {name for name, family in families.items() if not used & family.series.keys()}

    # Figures for a closer look.
    assert unused == {
        *(name for name in families if name.startswith(OF_SESSIONS)),
        *("holdfast_node_info", "holdfast_sessions_opened", "holdfast_takeovers"),
        *("holdfast_streams_overflowed", "holdfast_duplicates_ignored"),
        *("holdfast_recording_bytes", "holdfast_turns_recorded"),
    }


# What a node shows


def test_every_metric_says_what_it_is(scrape: Scrape) -> None:
    assert [name for name, family in scrape.families.items() if not family.help] == []
    assert all(family.help.endswith(".") for name, family in scrape.families.items() if name.startswith("holdfast_"))


def test_names_follow_the_rules_of_prometheus(scrape: Scrape) -> None:
    ours = [(name, kind) for name, kind in scrape.typed() if name.startswith("holdfast_")]

    assert {kind for _, kind in ours} == {"counter", "gauge", "histogram"}
    for name, kind in ours:
        assert name.endswith("_total") is (kind == "counter"), name
        assert re.fullmatch(r"[a-z_]+", name)
        # Base units only.
        assert not re.search(r"_(ms|millis|milliseconds|minutes|kib|mib|kb|mb|percent)(_|$)", name)


def test_a_histogram_has_all_that_belongs_to_one(scrape: Scrape) -> None:
    for name, family in scrape.families.items():
        if family.type == "histogram":
            assert family.series.keys() == {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
            counts, buckets = family.series[f"{name}_count"], family.series[f"{name}_bucket"]
            for labels, count in counts.items():
                assert buckets[labels | {("le", "+Inf")}] == count


def test_the_game_had_in_it_what_operators_ask_for(scrape: Scrape) -> None:
    happened = (
        *("holdfast_resumes_total", "holdfast_drops_total", "holdfast_sessions_ended_total"),
        *("holdfast_limits_exceeded_total", "holdfast_rooms_failed_total", "holdfast_commits_total"),
        *("holdfast_round_trip_seconds_count", "holdfast_gate_wait_seconds_count", "holdfast_turns_total"),
    )

    assert [name for name in happened if not sum(scrape.by_series[name].series[name].values())] == []


def test_counters_never_go_down_while_players_leave(game: Game) -> None:
    assert len(game.scrapes) == 6
    for before, after in pairwise(game.scrapes):
        for name, family in before.by_series.items():
            if family.type not in {"counter", "histogram"} or name.startswith(OF_SESSIONS):
                continue
            for labels, value in family.series[name].items():
                assert after.by_series[name].series[name][labels] >= value, name


def test_gauges_go_down_when_players_leave(game: Game) -> None:
    sessions = [sum(each.by_series["holdfast_sessions"].series["holdfast_sessions"].values()) for each in game.scrapes]

    assert sessions == [4, 4, 3, 2, 1, 0]


def test_nothing_tells_players_apart_but_the_sample_of_sessions(game: Game) -> None:
    text = "".join(scrape.text for scrape in game.scrapes)
    lines = [line for line in text.splitlines() if any(session in line for session in game.sessions)]

    assert not [each for each in game.players if each in text]
    assert lines
    assert all(line.startswith(OF_SESSIONS) for line in lines)
    for scrape in game.scrapes:
        assert len(re.findall(r"^holdfast_session_drops_total{", scrape.text, re.MULTILINE)) <= 2


# The files themselves


def test_the_dashboard_is_of_a_schema_that_grafana_11_reads() -> None:
    assert DASHBOARD["schemaVersion"] >= 39
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "holdfast"
    assert DASHBOARD["title"] == "Holdfast"


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    cells = [cell for panel in DASHBOARD["panels"] for cell in cells_of(panel["gridPos"])]

    assert len(set(ids)) == len(ids)
    assert len(set(cells)) == len(cells)
    assert all(0 <= x < 24 for x, _ in cells)


def cells_of(place: dict[str, int]) -> list[tuple[int, int]]:
    columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
    return [(x, y) for x in columns for y in lines]


def test_every_panel_says_what_it_shows_and_asks_the_data_source_that_was_chosen() -> None:
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["type"] in {"timeseries", "stat"}
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEF"[: len(panel["targets"])])


def test_every_panel_looks_at_the_nodes_that_were_chosen() -> None:
    for panel in panels():
        for target in panel["targets"]:
            for series in Expression(target["expr"]).series:
                assert series.labels.items() >= {"job": "$job", "instance": "$instance"}.items(), panel["title"]


def test_a_resynced_player_counts_as_returned() -> None:
    (panel,) = [panel for panel in panels() if "returned" in panel["title"].lower() and panel["type"] == "stat"]

    assert 'outcome=~"resumed|resynced"' in panel["targets"][0]["expr"]
    assert panel["title"] == "Returned to their session"


def test_variables_are_defined_before_they_are_used(scrape: Scrape) -> None:
    names = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(DASHBOARD["panels"])))

    assert names == ["datasource", "job", "instance"]
    assert used - {"__rate_interval"} == set(names)
    for variable in DASHBOARD["templating"]["list"][1:]:
        assert re.search(r"label_values\((\w+)", variable["definition"])[1] in scrape.by_series  # type: ignore[index]


def test_legends_name_labels_that_the_expression_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            expression = Expression(target["expr"])
            is_whole = not expression.grouped_by and "sum" not in target["expr"]
            assert named <= expression.grouped_by | (FROM_PROMETHEUS if is_whole else set()), panel["title"]


@every_case("rule", rules(), ids=[rule["alert"] for rule in rules()])
def test_an_alert_says_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Holdfast([A-Z][a-z]+)+", rule["alert"])
    assert DURATION.fullmatch(rule.get("for", "0s"))
    assert rule["labels"]["severity"] in {"warning", "critical"}
    annotations = rule["annotations"]
    assert annotations.keys() == {"summary", "description", "what_to_do"}
    assert all(annotations.values())
    # Whoever is woken up is told which node it is.
    assert "$labels.instance" in annotations["summary"]
    named = set(re.findall(r"\$labels\.(\w+)", "".join(annotations.values())))
    grouped_by = Expression(rule["expr"]).grouped_by
    assert named <= (grouped_by or FROM_PROMETHEUS)


def test_the_alerts_of_rooms_that_fail_know_every_way_to() -> None:
    advice = [rule["annotations"]["what_to_do"] for rule in rules() if "holdfast_rooms_failed_total" in rule["expr"]]

    assert [why for why in ROOM_FAILURES if why not in "".join(advice)] == []


def test_names_of_alerts_are_not_used_twice() -> None:
    names = [rule["alert"] for rule in rules()]

    assert len(set(names)) == len(names)


def test_prometheus_asks_the_path_that_nodes_answer_and_reads_these_alerts() -> None:
    (job,) = PROMETHEUS["scrape_configs"]

    assert job["job_name"] == "holdfast"
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"].keys() == {"credentials_file"}
    assert job["static_configs"][0]["targets"] == ["127.0.0.1:7778"]
    assert [(DEPLOY / "prometheus" / name).exists() for name in PROMETHEUS["rule_files"]] == [True]
    assert 'job="holdfast"' in rules()[0]["expr"]
