"""Where the demo is seen: a live table in a terminal, lines anywhere else."""

import io
import sys

from rich.console import Console
from rich.live import Live

from holdfast.cli.demo.show import Show
from holdfast.cli.demo.table import line, picture, places, server_line


def open_console() -> Console:
    """The terminal, or whatever standard output is, with a buffer also where Python was told to have none.

    Without one, a write that a signal interrupts loses its rest: half a table, or the cursor for good.
    """
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and isinstance(out.buffer, io.RawIOBase):
        out = open(out.fileno(), "w", encoding=out.encoding, errors=out.errors, closefd=False)  # noqa: SIM115
    return Console(file=out, highlight=False)


class LiveScreen:
    """A table that is drawn over and over in its place."""

    draw_s = 0.125

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live

    def draw(self, show: Show) -> None:
        """Draw the table anew."""
        self._live.update(picture(show, self._console), refresh=True)

    def finish(self, show: Show) -> None:
        """Leave the last table standing."""
        self.draw(show)


class PlainScreen:
    """A line a second, and one table at the end."""

    draw_s = 1.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._has_begun = False

    def draw(self, show: Show) -> None:
        """Print one line."""
        if not self._has_begun:
            self._has_begun = True
            for text in (*places(show), server_line(show)):
                self._console.print(text, soft_wrap=True)
        self._console.print(line(show), soft_wrap=True)

    def finish(self, show: Show) -> None:
        """Print the table."""
        self.draw(show)
        self._console.print(picture(show, self._console))
