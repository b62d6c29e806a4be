"""The command `holdfast top`: a live view of a server, or of all nodes of its cluster, in the terminal."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.node import Node, asks_node
from holdfast.cli.showing import PIPE_COLUMNS, counted, printable

_TIMEOUT_S = 5.0
# A title, a line about all of it, two of the table's head, one for each row, the sum, and what is wrong.
_OTHER_LINES = 9
_COLUMNS = {
    "node": 0,
    "state": 0,
    "load": 76,
    "rooms": 0,
    "connected": 50,
    "away": 90,
    "messages/s": 0,
    "frames in/s": 104,
    "frames out/s": 104,
    "drops/s": 60,
    "returns/s": 90,
}
"""The columns, and how wide a terminal must be for each."""
_STYLES = {"alive": "green", "suspect": "yellow", "draining": "yellow", "drained": "cyan", "dead": "red"}
_THOUSAND = 1000

Totals = Mapping[str, int]


class NodeRow(NamedTuple):
    """One node as it is now."""

    name: str
    life: str
    state: str
    load: float | None
    rooms: int | None
    connected: int | None
    away: int | None
    totals: Totals | None
    """None: it did not answer."""
    at: float = 0.0
    """When it counted."""


class TopView(NamedTuple):
    """What was seen at one moment."""

    at: float
    players: int
    kinds: Mapping[str, int]
    rows: Sequence[NodeRow]
    is_cluster: bool
    problems: Sequence[str]


def look_at(node: Node) -> TopView:
    """Ask a node for the numbers of all nodes."""
    overview = node.ask("GET", "overview", tells_missing=False)
    listed = node.ask("GET", "nodes")
    members = {each["life"]: each for each in listed["nodes"] if each["state"] != "left"}
    numbers = {each["life"]: each for each in overview["nodes"]}
    is_cluster = bool(listed["cluster"])
    if not is_cluster:
        own = next(iter(members))
        numbers = {own: {**overview, "rooms": sum(overview["rooms"].values())}}
    problems = [f"{each['name']}: {'; '.join(each['reasons'])}" for each in members.values() if each["reasons"]]
    return TopView(
        overview["at"],
        overview["players"],
        {kind: count for kind, count in overview["rooms"].items() if count},
        [_row(member, numbers.get(life), is_cluster=is_cluster) for life, member in members.items()],
        is_cluster,
        problems,
    )


def _row(member: Mapping[str, Any], numbers: Mapping[str, Any] | None, *, is_cluster: bool) -> NodeRow:
    state = str(member["state"])
    if state == "alive" and member.get("is_draining"):
        state = "drained" if member.get("is_drained") else "draining"
    name, load = printable(member["name"]), member["load"] if is_cluster and state != "dead" else None
    if numbers is None:
        shown = state if state == "dead" else "no answer"
        return NodeRow(name, member["life"], shown, load, None, None, None, None)
    sessions = numbers["sessions"]
    away = sessions.get("disconnected", 0)
    return NodeRow(
        name,
        member["life"],
        state,
        load,
        numbers["rooms"],
        sessions.get("connected", 0),
        away,
        numbers["totals"],
        numbers["at"],
    )


class NodeRates:
    """What is counted between two looks, by the second."""

    def __init__(self, before: TopView | None) -> None:
        self._before = {row.life: row for row in before.rows} if before is not None else {}

    def of(self, row: NodeRow, *names: str) -> float | None:
        """Of one node; None if it was not seen twice."""
        before = self._before.get(row.life)
        if row.totals is None or before is None or before.totals is None or row.at <= before.at:
            return None
        return sum(row.totals.get(name, 0) - before.totals.get(name, 0) for name in names) / (row.at - before.at)


_RATES = {
    "messages/s": ("messages_applied",),
    "frames in/s": ("frames_received",),
    "frames out/s": ("frames_sent",),
    "drops/s": ("drops",),
    "returns/s": ("resumed", "resynced", "reset"),
}


def cells_of(row: NodeRow, rates: NodeRates) -> dict[str, Text]:
    """What the columns show of a node."""
    cells = {
        "node": Text(row.name),
        "state": Text(row.state, style=_STYLES.get(row.state, "red")),
        "load": Text("" if row.load is None else f"{100 * row.load:.0f} %"),
    }
    for name, count in (("rooms", row.rooms), ("connected", row.connected), ("away", row.away)):
        cells[name] = Text("–" if count is None else f"{count:,}")
    return cells | {name: Text(_short(rates.of(row, *counters))) for name, counters in _RATES.items()}


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    if abs(value) >= _THOUSAND:
        return f"{value / _THOUSAND:.1f}k"
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"  # noqa: PLR2004 - two digits are enough


def view(
    before: TopView | None, now: TopView, *, title: str, width: int, height: int, problem: str = ""
) -> RenderableType:
    """The whole screen; `problem` is why the numbers are old."""
    rates = NodeRates(before)
    columns = [name for name, needed in _COLUMNS.items() if width >= needed and (name != "load" or now.is_cluster)]
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, show_footer=len(now.rows) > 1)
    rows = [cells_of(row, rates) for row in now.rows]
    everything = _sum(now, rates)
    for name in columns:
        table.add_column(
            name,
            everything.get(name, ""),
            justify="left" if name in {"node", "state"} else "right",
            no_wrap=True,
            overflow="ellipsis",
        )
    kept = max(1, height - _OTHER_LINES)
    for cells in rows[:kept]:
        table.add_row(*(cells[name] for name in columns))
    lines: list[RenderableType] = [
        Text(title, style="bold", overflow="ellipsis", no_wrap=True),
        _about(now),
        Text(""),
        table,
    ]
    if len(rows) > kept:
        lines.append(Text(f"and {counted(len(rows) - kept, 'more node')}", style="dim"))
    lines += [Text(printable(each), style="yellow") for each in now.problems]
    if problem:
        lines.append(Text(problem, style="bold red"))
    return Group(*lines)


def _sum(now: TopView, rates: NodeRates) -> dict[str, str]:
    shown = {"node": "all"}
    for name, counts in (
        ("rooms", [row.rooms for row in now.rows]),
        ("connected", [row.connected for row in now.rows]),
        ("away", [row.away for row in now.rows]),
    ):
        shown[name] = f"{sum(count or 0 for count in counts):,}"
    for name, counters in _RATES.items():
        known = [rate for row in now.rows if (rate := rates.of(row, *counters)) is not None]
        shown[name] = _short(sum(known) if known else None)
    return shown


def _about(now: TopView) -> Text:
    kinds = " · ".join(f"{count:,} {printable(kind)}" for kind, count in sorted(now.kinds.items()))
    return Text(f"{counted(now.players, 'player')} · rooms: {kinds or 'none'}", style="dim")


@click.command()
@click.option(
    "--interval", type=click.FloatRange(1.0, 60.0), default=1.0, show_default=True, help="Seconds between two looks."
)
@click.option("--once", is_flag=True, help="TopView twice, print what is there, and end: as without a terminal.")
@asks_node()
def top(*, node: Node, as_json: bool, interval: float, once: bool) -> None:
    """Watch a server, or all nodes of its cluster: load, rooms, sessions, messages and drops a second.

    In a terminal the view is refreshed until Ctrl-C. A narrow terminal has fewer columns.
    """
    node = replace(node, timeout_s=_TIMEOUT_S)
    console = Console(highlight=False)
    before = look_at(node)
    if as_json or once or not console.is_terminal:
        time.sleep(interval)
        now = look_at(node)
        if as_json:
            click.echo(json.dumps(_as_data(before, now), indent=2, ensure_ascii=False))
        else:
            console.width = console.width if console.is_terminal else PIPE_COLUMNS
            console.print(view(before, now, title=_title(node), width=console.width, height=sys.maxsize))
        return
    try:
        _watch(node, console, before, interval)
    except KeyboardInterrupt:
        # The usual end.
        return


def _watch(node: Node, console: Console, now: TopView, interval: float) -> None:
    before: TopView | None = None
    problem = ""
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            width, height = console.size
            live.update(
                view(before, now, title=_title(node), width=width, height=height, problem=problem), refresh=True
            )
            time.sleep(interval)
            try:
                seen = look_at(node)
            except click.ClickException as error:
                problem = f"{error.message} Trying again …"
            else:
                # A server that was started again counts from zero.
                before, now, problem = now, seen, ""


def _title(node: Node) -> str:
    return f"Holdfast at {node.url} · Ctrl-C to quit"


def _as_data(before: TopView, now: TopView) -> dict[str, Any]:
    rates = NodeRates(before)
    return {
        "at": now.at,
        "players": now.players,
        "rooms": dict(now.kinds),
        "nodes": [
            {
                "name": row.name,
                "life": row.life,
                "state": row.state,
                "load": row.load,
                "rooms": row.rooms,
                "connected": row.connected,
                "disconnected": row.away,
                **{
                    name.replace("/s", "_per_s").replace(" ", "_"): rates.of(row, *each)
                    for name, each in _RATES.items()
                },
            }
            for row in now.rows
        ],
    }
