"""A session's timeline, for people and for programs."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.cli.operate.showing import printable

_COLUMNS = 80
"""Where there is no terminal to fit into: prose is not read in lines as long as a pipe allows."""


def show_timeline(timeline: Mapping[str, Any], *, as_json: bool) -> None:
    """What became of a session, what can be done about it, and what happened, with its times."""
    if as_json:
        click.echo(json.dumps(timeline, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _COLUMNS
    head = f"Session {timeline['session']} of player {timeline['player']}: {timeline['status']}"
    console.print(Text(printable(head), style="bold"))
    console.print()
    console.print(Text(printable(timeline["explanation"])))
    if timeline["advice"]:
        console.print()
        console.print(Text("What you can do", style="bold"))
        console.print(Padding(Text(printable(timeline["advice"])), (0, 0, 0, 2)))
    console.print()
    console.print(Text("What happened (UTC)", style="bold"))
    if timeline["forgotten"]:
        console.print(Text(f"  {timeline['forgotten']} earlier entries are not kept any more", style="dim"))
    table = Table.grid(padding=(0, 2))
    for day, time, entry in _dated(timeline["entries"]):
        table.add_row("", Text(day, style="dim"), Text(time), Text(printable(entry["text"])))
    console.print(table)


def _dated(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each entry with its day, if that is another than the one before, and its time."""
    last = ""
    for entry in entries:
        at = datetime.fromtimestamp(entry["at"], UTC)
        day = f"{at:%Y-%m-%d}"
        yield ("" if day == last else day), f"{at:%H:%M:%S}.{at.microsecond // 1000:03}", entry
        last = day
