"""Print what a node answered: as tables and text for people, as JSON for programs."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import holdfast

PIPE_COLUMNS = 160
"""The width of tables where there is no terminal: wide enough for every column."""
_PROSE_COLUMNS = 80
_UNITS_S = {"d": 86_400, "h": 3600, "min": 60}

_UNIT = re.compile("_(at|s|ms)$")

_GAP = 2
_LEAST = 12
_ENDLESS = 10_000

LONG = frozenset({"properties", "name", "reason", "destinations", "sessions", "rooms", "roles"})
"""Columns that are shortened where there is not enough space."""
OF_CLUSTERS = frozenset({"node", "nodes"})
"""Columns that are left out where there is nothing in them: a server that is alone."""

Item = Mapping[str, Any]
Column = str | tuple[str, Callable[[Item], object]]
"""A column of a table: the name of a field, whose unit is not part of the heading, or a heading and what it shows."""
Show = str | Callable[[Any], None]
"""How an answer is shown to people: a function that prints it, or a sentence with its fields in braces."""


def show(answer: Any, shown: Show, *, as_json: bool) -> None:
    """Print an answer as JSON, or for people."""
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    elif isinstance(shown, str):
        click.echo(shown.format_map(answer))
    else:
        shown(answer)


def table_of(columns: Sequence[Column], *, empty: str) -> Callable[[Sequence[Item]], None]:
    """Show a list as a table with a row for each item, or this sentence if there are none."""

    def show_table(items: Sequence[Item]) -> None:
        if not items:
            click.echo(empty)
            return
        console = _console(PIPE_COLUMNS)
        shown = [each for each in columns if each not in OF_CLUSTERS or any(item.get(str(each)) for item in items)]
        headings = [_UNIT.sub("", column) if isinstance(column, str) else column[0] for column in shown]
        rows = [[printable(_cell(item, column)) for column in shown] for item in items]
        _fit(rows, headings, console.width)
        table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
        for number, heading in enumerate(headings):
            table.add_column(heading, no_wrap=True, width=_widest(heading, rows, number))
        for row in rows:
            table.add_row(*map(Text, row))
        # The terminal wraps a line that is too long, so that nothing of it is lost.
        needed = console.measure(table, options=console.options.update(width=_ENDLESS)).maximum
        console.width = max(console.width, needed)
        console.print(table)

    return show_table


def _cell(item: Item, column: Column) -> object:
    if not isinstance(column, str):
        return column[1](item)
    value = item.get(column, "")
    if column.endswith("_at"):
        return ago(value or 0)
    if column.endswith("_s"):
        return span(value or 0)
    if column.endswith("_ms"):
        return f"{value:.0f} ms" if value else ""
    return ", ".join(value) if isinstance(value, list) else value


def _fit(rows: list[list[str]], headings: Sequence[str], width: int) -> None:
    """Shorten the long columns until the table fits; ids and states stay whole, because they are copied and scanned."""
    widest = [_widest(heading, rows, number) for number, heading in enumerate(headings)]
    too_wide = sum(widest) + _GAP * (len(headings) - 1) - width
    for number, heading in enumerate(headings):
        if heading in LONG and too_wide > 0:
            kept = max(_LEAST, widest[number] - too_wide)
            too_wide -= max(0, widest[number] - kept)
            for row in rows:
                if cell_len(row[number]) > kept:
                    row[number] = f"{set_cell_size(row[number], kept - 1).rstrip()}…"


def _widest(heading: str, rows: Sequence[Sequence[str]], number: int) -> int:
    """The width of a column on a terminal, where many letters and emoji are two columns wide."""
    return max(cell_len(heading), *(cell_len(row[number]) for row in rows))


def show_one(item: Item) -> None:
    """Print one item, a line for each field."""
    table = Table.grid(padding=(0, 2))
    for name, value in item.items():
        match value:
            case dict() | list():
                text = json.dumps(value, ensure_ascii=False)
            case bool():
                text = "yes" if value else "no"
            case _ if name.endswith("_at") and value:
                text = f"{ago(value)} ({value})"
            case _:
                text = "-" if value is None or name.endswith("_at") else str(value)
        table.add_row(Text(name, style="dim"), Text(printable(text)))
    _console(PIPE_COLUMNS).print(table)


def show_room(room: Item) -> None:
    """Print a room's details, then what is in it as a tree; what not everybody sees is marked."""
    show_one({name: value for name, value in room.items() if name != "contents"})
    contents = room.get("contents")
    if contents is None:
        return
    shared = contents["shared"]
    marks = {tuple(path.split(".")): mark for mark in ("private", "hidden") for path in (shared or {}).get(mark, ())}
    seen = f"clients see {' and '.join(shared['roots'])}" if shared else "nothing is shared with clients"
    if shared and shared["has_view"]:
        seen += "; each has a view of its own of the state"
    if shared and shared["behind"]:
        seen += f"; {shared['behind']} behind, with {shared['kept_bytes']:,} bytes of earlier states kept for them"
    console = _console(PIPE_COLUMNS)
    console.print()
    console.print(Text.assemble(("Contents", "bold"), f" ({seen})"))
    players = {each["id"]: each["data"] for each in contents["players"]}
    timers = {"timers": contents["timers"]} if contents["timers"] else {}
    for name, value in {"state": contents["state"], **contents["attributes"], "players": players, **timers}.items():
        for line in _branch((name,), value, marks):
            console.print(line, soft_wrap=True)


def _branch(path: tuple[str, ...], value: Any, marks: Mapping[tuple[str, ...], str]) -> Iterator[Text]:
    """The lines of one value of a tree, with the keys that lead to it."""
    mark = next((mark for pattern, mark in marks.items() if _matches(pattern, path)), "")
    line = Text.assemble("  " * len(path), (printable(path[-1]), "dim"), (f" [{mark}]" if mark else "", "yellow"))
    inside: Mapping[Any, Any] = {}
    if isinstance(value, dict):
        inside = value
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        inside = dict(enumerate(value))
    yield line if inside else line.append(f"  {printable(json.dumps(value, ensure_ascii=False))}")
    for key, each in inside.items():
        yield from _branch((*path, str(key)), each, marks)


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(pattern) == len(path) and all(part in ("*", key) for part, key in zip(pattern, path, strict=True))


def show_timeline(timeline: Item) -> None:
    """Print why a session dropped or ended, what to do about it, and its events with their times."""
    console = _console(_PROSE_COLUMNS)
    name = f" ({timeline['name']})" if timeline.get("name") else ""
    head = f"Session {timeline['session']} of player {timeline['player']}{name}: {timeline['status']}"
    console.print(Text(printable(head), style="bold"))
    console.print()
    console.print(Text(printable(timeline["explanation"])))
    if timeline.get("node"):
        console.print(Text(f"It is on node {printable(timeline['node'])}.", style="dim"))
    if timeline["advice"]:
        console.print()
        console.print(Text("What you can do", style="bold"))
        console.print(Padding(Text(printable(timeline["advice"])), (0, 0, 0, 2)))
    console.print()
    console.print(Text("What happened (UTC)", style="bold"))
    if timeline["forgotten"]:
        console.print(Text(f"  {timeline['forgotten']} earlier entries are no longer kept", style="dim"))
    table = Table.grid(padding=(0, 2))
    on_nodes = len({entry.get("node", "") for entry in timeline["entries"]}) > 1
    last_day = ""
    for entry in timeline["entries"]:
        at = datetime.fromtimestamp(entry["at"], UTC)
        day, clock = f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
        shown_day = "" if day == last_day else day
        where = [Text(printable(entry["node"]), style="dim")] if on_nodes else []
        table.add_row("", Text(shown_day, style="dim"), Text(clock), *where, Text(printable(entry["text"])))
        last_day = day
    console.print(table)


def _console(pipe_columns: int) -> Console:
    """The terminal, or a console of this width where there is none."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = pipe_columns
    return console


def printable(value: object) -> str:
    """Text with control characters escaped: players' text must not control an operator's terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(value))


def ago(wall_s: float) -> str:
    """A moment in the past: "2 h ago"."""
    return f"{span(time.time() - wall_s)} ago"


def span(seconds: float) -> str:
    """A duration, in its largest unit: "5 min"."""
    for unit, length in _UNITS_S.items():
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def counted(number: int, what: str) -> str:
    """A number and its noun: "1 room", "2 rooms"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def show_facts(console: Console, game: str, facts: Iterable[tuple[str, str]]) -> None:
    """What a server that has started says of itself; a fact without a label is a note on the one before."""
    console.print(Text.assemble(("Holdfast", "bold"), f" {holdfast.__version__} serves {game}"), soft_wrap=True)
    for label, fact in facts:
        if fact:
            console.print(Text.assemble((f"  {label:<10}", "dim"), fact), soft_wrap=True)
    console.print("Press Ctrl-C to stop.", style="dim")
