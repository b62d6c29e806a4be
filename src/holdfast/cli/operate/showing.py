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

LONG = frozenset({"name", "properties", "reason", "destinations", "sessions", "rooms"})
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
    rows = [[_printable(of(item)) for _, of in columns] for item in items]
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for number, (name, _) in enumerate(columns):
        # Ids and states are for copying and for reading at a glance: only what somebody has written at length gives way.
        longest = max(len(name), *(len(row[number]) for row in rows))
        table.add_column(name, no_wrap=True, min_width=min(longest, len(name)) if name in LONG else longest)
    for row in rows:
        table.add_row(*map(Text, row))
    _print(table)


def show_one(item: Mapping[str, Any], *, as_json: bool) -> None:
    """One thing: a line for each of its facts."""
    if as_json:
        click.echo(json.dumps(item, indent=2, ensure_ascii=False))
        return
    table = Table.grid(padding=(0, 2))
    for name, value in item.items():
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else _plain(name, value)
        table.add_row(Text(name, style="dim"), Text(_printable(shown)))
    _print(table)


def _plain(name: str, value: Any) -> str:
    if value is None or (name.endswith("_at") and not value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{ago(value)} ({value})" if name.endswith("_at") else str(value)


def _printable(value: object) -> str:
    """What players write is shown on an operator's terminal: it must not steer it."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(value))


def _print(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    console.print(table)


def ago(wall_s: float) -> str:
    """A moment of the past, as people say it."""
    return f"{span(time.time() - wall_s)} ago"


def span(seconds: float) -> str:
    """So long, as people say it."""
    for unit, length in (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
