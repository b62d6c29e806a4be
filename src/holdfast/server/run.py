"""Run a server until it is told to stop."""

import asyncio
import signal
import sys
from collections.abc import Callable

from holdfast.server.server import Server


def run(server: Server, *, ready: Callable[[Server], None] | None = None) -> None:
    """Start the server and run it until SIGINT or SIGTERM; `ready` is called when its doors are open."""
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(server, ready))


def event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest event loop there is on this system; None for Python's own."""
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not to be had on Windows

    return uvloop.new_event_loop


async def _serve(server: Server, ready: Callable[[Server], None] | None) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with server:
        if ready is not None:
            ready(server)
        await stopped.wait()
