"""The demo's server, as a process of its own that can be killed.

    python -m holdfast.cli.demo.server FOLDER [HTTP_PORT ORIGIN]

With a port it has a dashboard, and with an origin a page that may connect. It says where it listens in one line, and
ends when its standard input does: so it outlives whoever started it by no more than a moment, however that one ended.
"""

import asyncio
import logging
import os
import shutil
import sys
from pathlib import Path

import msgspec

from holdfast import HttpApi, Limits, Server, WebSocket
from holdfast.cli.demo.arena import Arena
from holdfast.http.limits import DEFAULT_HOST
from holdfast.server.run import event_loop

# A ping every second keeps the latencies fresh.
_LIMITS = Limits(ping_s=1.0, silence_s=4.0)


class Ready(msgspec.Struct, frozen=True):
    """The server listens."""

    pid: int
    host: str
    port: int
    room: str
    http: str = ""


async def serve(folder: Path, http_port: int | None = None, origin: str = "") -> None:
    """Go on with the room that is in the store, or begin one."""
    loop = asyncio.get_running_loop()
    owner = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(owner), sys.stdin)
    server = Server(
        [Arena],
        # The page by its other name, too.
        listen=[WebSocket(port=0, origins=[origin, origin.replace(DEFAULT_HOST, "localhost")] if origin else [])],
        store=f"sqlite:{folder / 'demo.db'}",
        http=HttpApi(port=http_port) if http_port is not None else None,
        limits=_LIMITS,
    )
    async with server:
        room = next(iter(server.rooms), None) or await server.create_room("arena")
        http = f"http://{DEFAULT_HOST}:{http_port}" if http_port is not None else ""
        ready = Ready(os.getpid(), *server.addresses["websocket"], room.id, http)
        sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
        sys.stdout.flush()
        await owner.read()
    # Whoever started us does this too, if it can.
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Serve until the end of standard input."""
    # A busy machine makes the server warn of skipped ticks; that is nothing to interrupt the show for.
    logging.basicConfig(level=logging.ERROR)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        folder, *page = sys.argv[1:]
        runner.run(serve(Path(folder), int(page[0]), page[1]) if page else serve(Path(folder)))


if __name__ == "__main__":
    main()
