"""The parent of a server that starts again when its code changes. It never loads the game itself."""

import os
import signal
import socket
import subprocess  # nosec B404
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import click

from holdfast.cli.reload.watching import changed, snapshot, syntax_errors

POLL_S = 0.3
STOP_S = 10.0
"""How long a server has to save its rooms and say goodbye."""


class PortOption(NamedTuple):
    """Where the server is to listen, and the option that says so."""

    option: str
    host: str
    port: int


def supervise(game: str, ports: Iterable[PortOption]) -> int:
    """Run this same command as a child, again and again, until Ctrl-C; the exit code."""
    folder = Path(game).resolve().parent if game.endswith(".py") or "/" in game else Path.cwd()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        arguments = [each for each in sys.argv[1:] if each != "--reload"] + free_ports(ports)
        # -P: the game's folder must not come before Python's own modules, as it would not have without us.
        command = [sys.executable, "-P", "-m", "holdfast", *arguments, "--supervised", scratch]
        supervisor = Supervisor(command, folder)
        # As Ctrl-C: whoever stops the parent stops the server.
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            return supervisor.run()
        except KeyboardInterrupt:
            supervisor.stop()
            click.echo("Stopped.")
            return 0
        finally:
            supervisor.kill()
            signal.signal(signal.SIGTERM, before)


def free_ports(ports: Iterable[PortOption]) -> list[str]:
    """Options for the ports that the system chooses: each life must have the same one, or nobody could come back."""
    options = []
    # All at once, or two of them might be given the same one.
    with ExitStack() as taken:
        for option in ports:
            if option.port:
                continue
            probe = taken.enter_context(socket.socket(socket.AF_INET6 if ":" in option.host else socket.AF_INET))
            try:
                probe.bind((option.host, 0))
            except OSError:
                # The server will say what is wrong with the address.
                continue
            options += [option.option, str(probe.getsockname()[1])]
    return options


class Supervisor:
    """One server at a time, of the code as it is."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Serve until the server ends by itself and well, or for ever."""
        served = seen = snapshot(self._folder)
        self._start()
        while True:
            code = self._wait()
            if code == 0:
                return 0
            if code is not None:
                click.echo("It starts again when a file changes.", err=True)
            now = snapshot(self._folder)
            if now == seen:
                continue
            seen = now
            if self._is_readable(changed(served, now)):
                click.echo(f"Starting again: {self._names(changed(served, now))} changed.")
                self.stop()
                served = now
                self._start()

    def stop(self) -> None:
        """End the server, as Ctrl-C would; at once, if it is told so again."""
        if self._child is None:
            return
        assert self._child.stdin is not None
        # It ends with its parent, so this is how it is told; see `Supervised.obey`.
        self._child.stdin.close()
        try:
            self._child.wait(STOP_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.kill()
        self._child = None

    def kill(self) -> None:
        """Leave nothing behind: neither the server nor what it started."""
        if self._child is None or self._child.poll() is not None:
            return
        if sys.platform == "win32":
            self._child.kill()
        else:
            # The group of its own that `_start` gave it; it lasts at least until the server is waited for.
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def _start(self) -> None:
        # Of a file that is changed twice within a second, Python would take the first for the second.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        # This same command. In a session of its own: Ctrl-C is for the parent, and the child is told once.
        self._child = subprocess.Popen(  # noqa: S603  # nosec B603
            self._command, stdin=subprocess.PIPE, env=environment, start_new_session=True
        )

    def _wait(self) -> int | None:
        """Let a moment pass; the exit code, if the server has ended in it."""
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

    def _is_readable(self, files: list[Path]) -> bool:
        """Whether it is worth to stop a server that runs for these."""
        errors = list(syntax_errors(files))
        for error in errors:
            click.echo("".join(traceback.format_exception_only(error)), err=True, nl=False)
        if errors:
            which = "The server goes on with the code it has" if self._child is not None else "No server runs"
            click.echo(f"{which}, until this can be read.", err=True)
        return not errors

    def _names(self, files: list[Path]) -> str:
        first = files[0].relative_to(self._folder)
        return str(first) if len(files) == 1 else f"{first} and {len(files) - 1} more"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
