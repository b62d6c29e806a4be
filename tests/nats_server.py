"""Real NATS servers: one for all tests of a process that only need some server, and others to stop and start."""

import atexit
import ctypes
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.deadlines import DEADLINE_S

SERVER = Path(sys.executable).with_name("nats-server")
BATCH_MAX = 10_000
_PR_SET_PDEATHSIG = 1

_CONFIG = """
listen: "{host}:{port}"
http: "{host}:{http}"
ports_file_dir: "{folder}"
max_payload: {payload}
{more}
"""
_JETSTREAM = """
jetstream {{ store_dir: "{folder}/data", sync_interval: {sync}, limits {{ batch {{ max_msgs: {batch} }} }} }}
"""


class NatsServer:
    """A server whose data is in a folder; after `kill` it can be started again, on the same ports."""

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", prefix: Sequence[str] = (), **settings: object
    ) -> None:
        """`prefix` stands before the command, as to run it in another namespace."""
        self._folder = folder
        self._host = host
        self._prefix = prefix
        self.settings = {"sync": "always", "payload": 1024 * 1024, "batch": BATCH_MAX, "more": ""} | settings
        """What its configuration says, for the next start."""
        self.jetstream = True
        self._process: subprocess.Popen[bytes] | None = None
        self.port = self.http = -1

    @property
    def url(self) -> str:
        return f"nats://{self._host}:{self.port}"

    @property
    def monitor(self) -> str:
        return f"http://{self._host}:{self.http}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        config = self._folder / "nats.conf"
        template = _CONFIG + (_JETSTREAM if self.jetstream else "")
        places = {"host": self._host, "port": self.port, "http": self.http, "folder": self._folder}
        config.write_text(template.format(**places, **self.settings))
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, SERVER, "-c", str(config)],
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - no other thread holds a lock that it needs
            )
        ports = self._folder / f"nats-server_{self.pid}.ports"
        deadline = time.monotonic() + DEADLINE_S
        while not (ports.exists() and ports.stat().st_size):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "nats.log").read_text())
            time.sleep(0.002)
        found = json.loads(ports.read_text())
        self.port = int(found["nats"][0].rpartition(":")[2])
        self.http = int(found["monitoring"][0].rpartition(":")[2])

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(how)
            self._process.wait(DEADLINE_S)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def _end_with_parent() -> None:
    """A test that is killed leaves no server behind; only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@cache
def shared_server() -> NatsServer:
    """The server of this process; each test has a store of its own name there."""
    # In memory if possible: what a disk does to a batch is not what these tests are about.
    memory = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a folder that only this user can open
    folder = Path(tempfile.mkdtemp(prefix="holdfast-nats-", dir=memory if memory.is_dir() else None))
    server = NatsServer(folder)
    server.start()

    def stop() -> None:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return server
