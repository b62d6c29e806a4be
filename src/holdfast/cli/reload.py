"""`holdfast serve --reload`: a parent process that restarts the server when its code changes.

The parent never loads the game itself. The server it starts is `Supervised`: it ends with its parent, and keeps its
rooms in the parent's temporary folder.
"""

import os
import signal
import socket
import subprocess  # nosec B404
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.abc import InspectLoader
from itertools import islice
from pathlib import Path
from typing import Any

import click

from holdfast import Room

POLL_S = 0.3
STOP_S = 10.0
"""How long a server may take to save its rooms and close its connections."""


def supervise(game: str, ports: Mapping[str, tuple[str, int]]) -> int:
    """Run this same command as a child, restarted at every change, until Ctrl-C; returns the exit code."""
    folder = Path(game).resolve().parent if game.endswith(".py") or "/" in game else Path.cwd()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        arguments = [each for each in sys.argv[1:] if each != "--reload"] + free_ports(ports)
        # -P: the current folder must not come before Python's own modules on the path.
        command = [sys.executable, "-P", "-m", "holdfast", *arguments, "--supervised", scratch]
        reloader = Reloader(command, folder)
        # Like Ctrl-C: stopping the parent stops the server.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return reloader.run()
        except KeyboardInterrupt:
            reloader.stop()
            click.echo("Stopped.")
            return 0
        finally:
            reloader.kill()
            signal.signal(signal.SIGTERM, before)


def free_ports(ports: Mapping[str, tuple[str, int]]) -> list[str]:
    """Of these options and their hosts and ports, those that fix a port 0 to a free one: after a restart, clients
    reconnect to the same port."""
    options = []
    # All are open at once, so that no two get the same port.
    with ExitStack() as taken:
        for option, (host, port) in ports.items():
            if port:
                continue
            probe = taken.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            # If the address is wrong, the server reports it.
            with suppress(OSError):
                probe.bind((host, 0))
                options += [option, str(probe.getsockname()[1])]
    return options


class Reloader:
    """Runs one server process at a time, with the current code."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run until the server exits by itself with code 0; returns that code."""
        served = seen = snapshot(self._folder)
        self._start()
        while True:
            code = self._wait()
            if code == 0:
                return 0
            if code is not None:
                click.echo("Waiting for a file to change before restarting.", err=True)
            now = snapshot(self._folder)
            if now == seen:
                continue
            seen = now
            files = changed(served, now)
            if files and self._can_be_compiled(files):
                more = f" and {len(files) - 1} more" if len(files) > 1 else ""
                click.echo(f"Restarting: {files[0].relative_to(self._folder)}{more} changed.")
                self.stop()
                served = now
                self._start()

    def stop(self) -> None:
        """Stop the server as Ctrl-C would; a second Ctrl-C kills it."""
        if self._child is None:
            return
        assert self._child.stdin is not None
        # The server stops when its standard input ends; see `Supervised.obey`.
        self._child.stdin.close()
        try:
            self._child.wait(STOP_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.kill()
        self._child = None

    def kill(self) -> None:
        """Kill the server and every process that it started."""
        if self._child is None or self._child.poll() is not None:
            return
        if sys.platform == "win32":
            self._child.kill()
        else:
            # `_start` gave it a process group of its own, which lasts at least until the server is waited for.
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def _start(self) -> None:
        # Python would use stale bytecode for a file that is changed twice within a second.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        # This same command. In a session of its own, so that Ctrl-C reaches only the parent.
        self._child = subprocess.Popen(  # noqa: S603  # nosec B603
            self._command, stdin=subprocess.PIPE, env=environment, start_new_session=True
        )

    def _wait(self) -> int | None:
        """Wait for a moment; returns the exit code if the server ended."""
        if self._child is None:
            time.sleep(POLL_S)
            return None
        try:
            code = self._child.wait(POLL_S)
        except subprocess.TimeoutExpired:
            return None
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child = None
        return code

    def _can_be_compiled(self, files: list[Path]) -> bool:
        """Whether these files have no syntax error; prints those that they have."""
        errors = list(syntax_errors(files))
        for error in errors:
            click.echo("".join(traceback.format_exception_only(error)), err=True, nl=False)
        if errors:
            state = "The server keeps running the old code" if self._child is not None else "No server is running"
            click.echo(f"{state} until this is fixed.", err=True)
        return not errors


# The server's side


@dataclass(frozen=True, slots=True)
class Supervised:
    """A server process with a supervising parent, and the folder that lasts as long as the parent."""

    folder: Path

    @property
    def store(self) -> str:
        """The store that is used if no other is given."""
        return f"sqlite:{self.folder / 'rooms.db'}"

    def obey(self, *, patience_s: float = 2 * STOP_S) -> None:
        """Stop this process, as Ctrl-C would, when its standard input ends: the parent closed it or is gone."""
        # Until the server runs and handles the signal itself. Silent, because the parent says why.
        signal.signal(signal.SIGINT, lambda _number, _frame: sys.exit(1))

        def stop_with_parent() -> None:
            while os.read(sys.stdin.fileno(), 1024):
                pass
            os.kill(os.getpid(), signal.SIGINT)
            # A game in an endless loop does not handle the signal, and a killed parent cannot end this process.
            time.sleep(patience_s)
            os._exit(1)

        threading.Thread(target=stop_with_parent, name="supervised", daemon=True).start()

    def facts(self, rooms: Sequence[type[Room[Any]]]) -> list[tuple[str, str]]:
        facts = [("reload", "restarts when a .py file changes; durable rooms go on and their players reconnect")]
        forgotten = [room.kind for room in rooms if room.durability == "memory"]
        if forgotten:
            facts.append(
                ("", f'restarts end rooms in memory: {", ".join(forgotten)}; durability = "commit" keeps them')
            )
        return facts


# The project's files


# Enough for a project; in a larger folder (a home, a disk) the rest is not watched.
FILES_MAX = 2_000
FOLDERS_MAX = 500

_NOT_OURS = frozenset({"__pycache__", "node_modules", "site-packages"})
# The file that marks a virtual environment, whatever its folder is called.
_ENVIRONMENT = "pyvenv.cfg"

Snapshot = dict[Path, tuple[int, int]]
"""The modification time and size of each file."""


def snapshot(folder: Path) -> Snapshot:
    """The Python files of a project as they are now."""
    found: Snapshot = {}
    for here, below, files in islice(os.walk(folder), FOLDERS_MAX):
        if _ENVIRONMENT in files:
            below.clear()
            continue
        below[:] = sorted(name for name in below if name not in _NOT_OURS and not name.startswith("."))
        for name in sorted(files):
            # A file is missing while an editor replaces it.
            with suppress(OSError):
                if name.endswith(".py"):
                    state = (file := Path(here, name)).stat()
                    found[file] = (state.st_mtime_ns, state.st_size)
            if len(found) >= FILES_MAX:
                return found
    return found


def changed(before: Snapshot, after: Snapshot) -> list[Path]:
    """The files that differ, are new or are gone."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


def syntax_errors(files: Iterable[Path]) -> Iterator[SyntaxError]:
    """The error of each file that Python cannot compile.

    Parsing is not enough: a `return` outside a function or an argument named twice is found by the compiler.
    """
    for file in files:
        try:
            source = file.read_bytes()
            with warnings.catch_warnings():
                # The server prints them when it imports the file.
                warnings.simplefilter("ignore")
                InspectLoader.source_to_code(source, str(file))
        except SyntaxError as error:
            yield error
        except (OSError, ValueError, RecursionError):
            # Gone, not text, or nested too deeply: the server reports it if it imports the file.
            continue
