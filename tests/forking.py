"""Python processes that are forked from one which has imported everything: they start in hundredths of a second.

A forked process has memory, descriptors, signals and an exit code of its own, like a started one. The server that forks
them runs once for each process of the tests: `python -m tests.forking PATH`.
"""

import asyncio
import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_IMPORTED = (
    *("holdfast.cli.main", "holdfast.cli.serve", "holdfast.cli.rooms", "holdfast.cli.types"),
    *("holdfast.sync", "holdfast.events", "holdfast.stores", "structlog", "uvloop", "holdfast.http.app"),
    *("holdfast.http.serving", "prometheus_client"),
)
_REQUEST_BYTES_MAX = 2**20
_LINE_BYTES_MAX = 2**22


class ForkedProcess(Process):
    """A forked process, as asyncio shows a started one."""

    def __init__(self, pid: int, streams: "_Streams", control: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = streams.stdin, streams.stdout, streams.stderr
        self._exit_code: int | None = None
        self._end = asyncio.create_task(self._wait_for_end(control), name=f"end of process {pid}")

    async def _wait_for_end(self, control: asyncio.StreamReader) -> None:
        self._exit_code = int(await control.readline())

    @property
    def returncode(self) -> int | None:
        return self._exit_code

    async def wait(self) -> int:
        await asyncio.shield(self._end)
        assert self._exit_code is not None
        return self._exit_code

    def send_signal(self, signal: int) -> None:
        if self._exit_code is None:
            os.kill(self.pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def communicate(
        self,
        input: bytes | bytearray | memoryview | None = None,  # noqa: A002 - as it is there
    ) -> tuple[bytes, bytes]:
        assert input is None
        assert self.stdout is not None
        assert self.stderr is not None
        stdout, stderr, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return stdout, stderr


class _Streams:
    """Our ends of a process's pipes, and its own until it has them."""

    def __init__(self) -> None:
        self.stdout = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
        self.stderr = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
        self.stdin: asyncio.StreamWriter
        self._transports: list[asyncio.BaseTransport] = []

    async def open(self) -> list[int]:
        """The process's ends: stdin, stdout, stderr."""
        loop = asyncio.get_running_loop()
        stdin, ours = os.pipe()
        writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(ours, "wb", 0))
        self.stdin = asyncio.StreamWriter(writing, protocol, None, loop)
        self._transports.append(writing)
        theirs = [stdin]
        for reader in (self.stdout, self.stderr):
            ours, their = os.pipe()
            make = partial(asyncio.StreamReaderProtocol, reader)
            reading, _ = await loop.connect_read_pipe(make, os.fdopen(ours, "rb", 0))
            self._transports.append(reading)
            theirs.append(their)
        return theirs

    def close(self) -> None:
        for transport in self._transports:
            transport.close()


@asynccontextmanager
async def forked(
    *arguments: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> AsyncIterator[ForkedProcess]:
    """A Python with these arguments, `-m MODULE ...` or `-c CODE`; SIGKILL at the end of the block."""
    request = {"arguments": arguments, "cwd": str(cwd), "environment": {**os.environ, **(environment or {})}}
    streams = _Streams()
    theirs = await streams.open()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_server())
    socket.send_fds(connection, [json.dumps(request).encode()], theirs)
    for each in theirs:
        os.close(each)
    control, writer = await asyncio.open_unix_connection(sock=connection)
    process = ForkedProcess(int(await control.readline()), streams, control)
    try:
        yield process
    finally:
        process.kill()
        await process.wait()
        streams.close()
        writer.close()


@cache
def _server() -> str:
    """Where the server of this process listens; it ends with us, at the latest."""
    folder = tempfile.TemporaryDirectory(prefix="forking-")
    path = str(Path(folder.name, "socket"))
    command = [sys.executable, "-m", "tests.forking", path]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    atexit.register(folder.cleanup)
    atexit.register(server.wait)
    atexit.register(server.stdin.close)
    return path


# The server


def _serve(path: str) -> dict[str, Any]:
    """Fork for every request; returns in what was forked, with the request."""
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    return _fork_again(connection, listener)
    sys.exit()


def _fork_again(connection: socket.socket, listener: socket.socket) -> dict[str, Any]:
    """One process to wait for the end and tell of it, and one that is asked for."""
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES_MAX, 3)
    pid = os.fork()
    if pid == 0:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        request: dict[str, Any] = json.loads(message)
        return request
    for descriptor in (0, 1, *descriptors):
        os.close(descriptor)
    connection.sendall(b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
        arguments = arguments[2:]
    kind, name, *rest = arguments
    if kind == "-c":
        sys.argv = ["-c", *rest]
        exec(compile(name, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as `python -c` does
    else:
        sys.argv = [name, *rest]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _request = _serve(sys.argv[1])
    os.chdir(_request["cwd"])
    os.environ.clear()
    os.environ.update(_request["environment"])
    _run(_request["arguments"])
