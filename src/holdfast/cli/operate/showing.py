"""What a node answered, for people and for programs."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Wide enough for every column where there is no terminal to fit into.
PIPE_COLUMNS = 160
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400

_GAP = 2
_LEAST = 12
_ENDLESS = 10_000

LONG = frozenset({"properties", "name", "reason", "destinations", "sessions", "rooms"})
"""Columns that give way where there is not enough space."""

Column = tuple[str, Callable[[Mapping[str, Any]], object]]
"""A column of a table: its name, and what it shows of an item."""


def show_list(items: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, as_json: bool, empty: str) -> None:
    """Many things: a row for each."""
    if as_json:
        click.echo(json.dumps(list(items), indent=2, ensure_ascii=False))
        return
    if not items:
        click.echo(empty)
        return
    console = _console()
    rows = _fitted([[printable(of(item)) for _, of in columns] for item in items], columns, console.width)
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for number, (name, _) in enumerate(columns):
        table.add_column(name, no_wrap=True, width=max(len(name), *(len(row[number]) for row in rows)))
    for row in rows:
        table.add_row(*map(Text, row))
    # A line that is too long is wrapped by the terminal, and nothing of it is lost.
    console.width = max(console.width, console.measure(table, options=console.options.update(width=_ENDLESS)).maximum)
    console.print(table)


def _fitted(rows: list[list[str]], columns: Sequence[Column], width: int) -> list[list[str]]:
    """Ids are for copying, states for reading at a glance: only what somebody has written at length gives way."""
    widest = [max(len(name), *(len(row[number]) for row in rows)) for number, (name, _) in enumerate(columns)]
    too_wide = sum(widest) + _GAP * (len(columns) - 1) - width
    for number, (name, _) in enumerate(columns):
        if name in LONG and too_wide > 0:
            kept = max(_LEAST, widest[number] - too_wide)
            too_wide -= max(0, widest[number] - kept)
            for row in rows:
                row[number] = row[number] if len(row[number]) <= kept else f"{row[number][: kept - 1]}…"
    return rows


def show_one(item: Mapping[str, Any], *, as_json: bool) -> None:
    """One thing: a line for each of its facts."""
    if as_json:
        click.echo(json.dumps(item, indent=2, ensure_ascii=False))
        return
    table = Table.grid(padding=(0, 2))
    for name, value in item.items():
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else _plain(name, value)
        table.add_row(Text(name, style="dim"), Text(printable(shown)))
    _console().print(table)


def _plain(name: str, value: Any) -> str:
    if value is None or (name.endswith("_at") and not value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{ago(value)} ({value})" if name.endswith("_at") else str(value)


def printable(value: object) -> str:
    """What players write is shown on an operator's terminal: it must not steer it."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(value))


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    return console


def ago(wall_s: float) -> str:
    """A moment of the past, as people say it."""
    return f"{span(time.time() - wall_s)} ago"


def span(seconds: float) -> str:
    """So long, as people say it."""
    for unit, length in (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
