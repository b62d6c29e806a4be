"""Keys of a terminal, one by one, without Enter."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

try:
    import termios
    import tty
except ImportError:  # Windows has no such terminals
    HAS_KEYS = False
else:
    HAS_KEYS = True


def are_there_keys() -> bool:
    """Whether somebody sits at a keyboard that we may read from."""
    if not HAS_KEYS or not sys.stdin.isatty():
        return False
    try:
        return os.access(os.ttyname(sys.stdin.fileno()), os.R_OK)
    except OSError:
        # A terminal of the host has no name in a container.
        return False


@contextmanager
def pressed(keys: Mapping[str, Callable[[], None]]) -> Iterator[None]:
    """Call what belongs to a key, whenever it is pressed; the terminal is as it was after the block."""
    # Opened anew: event loops make what they read from non-blocking, and standard output is the same terminal. Writing
    # to it would fail whenever somebody holds it up (Ctrl-S, a slow line).
    terminal = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDONLY | os.O_NOCTTY)
    before = termios.tcgetattr(terminal)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(terminal, 64).decode(errors="ignore").lower():
            if key in keys:
                keys[key]()

    # No line editing and no echo; Ctrl-C is a signal as ever.
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(terminal)
