"""Makes demo.svg, the picture of `make demo`: a real run, looked at after a few crashes.

Run it from the repository: .venv/bin/python docs/images/demo.py
"""  # noqa: INP001 - a script, run by its path

import asyncio
import contextlib
import io
import re
from pathlib import Path

from rich.console import Console

from holdfast.cli.demo.command import Totals, picture
from holdfast.cli.demo.show import DemoSettings, Show
from holdfast.server.run import event_loop

PICTURE = Path(__file__).with_suffix(".svg")
SETTINGS = DemoSettings(bots=8, seconds=18.0, cut_every_s=0.5, crash_every_s=4.0, seed=7, has_keys=True)
# Somewhat after the third crash, when most are back and some are not.
LOOK_AT_S = 13.0
DISCONNECTED_MAX = 3
# The width of a character, in the units of Rich's pictures.
COLUMN = 12.2


class Camera:
    """Keeps one moment."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._has_seen = False

    def draw(self, show: Show) -> None:
        """Print the moment to the console, which records it."""
        is_good = (
            show.elapsed_s >= LOOK_AT_S
            and show.server.ready
            and 1 <= Totals(show.bots).disconnected <= DISCONNECTED_MAX
        )
        if is_good and not self._has_seen and show.phase != "over":
            self._has_seen = True
            self._console.print(picture(show, self._console))


class Unattended(Show):
    """A show whose keys are in the picture, and pressed by nobody."""

    def _keys(self, stop: asyncio.Event) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def main() -> None:
    """Play, and draw."""
    console = Console(record=True, width=104, height=24, file=io.StringIO(), force_terminal=True, highlight=False)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(Unattended(SETTINGS, Camera(console).draw, draw_s=0.05).run())
    console.save_svg(str(PICTURE), title="make demo")
    PICTURE.write_text(_tidied(PICTURE.read_text("utf-8")), "utf-8")


def _tidied(svg: str) -> str:
    # No fonts from elsewhere: a picture in a README cannot load them, and should not try.
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "ui-monospace, SFMono-Regular, Menlo, Consolas")
    # Some viewers drop the spaces that a text begins with: begin it where they end.
    svg = re.sub(r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*)>((?:&#160;)+)', _moved, svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _moved(text: re.Match[str]) -> str:
    x, y, length, rest, spaces = text.groups()
    width = COLUMN * (len(spaces) // len("&#160;"))
    return f'x="{float(x) + width:g}" {y} textLength="{max(float(length) - width, 0):g}"{rest}>'


if __name__ == "__main__":
    main()
