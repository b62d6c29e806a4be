"""Run a server until a signal stops it."""

import asyncio
import signal
import sys
from collections.abc import Callable

from holdfast.server.garbage import tune_gc
from holdfast.server.server import Server


def run(server: Server, *, ready: Callable[[Server], None] | None = None) -> None:
    """Start the server and run it until a signal stops it; `ready` is called when it listens.

    SIGTERM drains it first (`Server.drain`), SIGINT does not; a second signal ends the process at once. SIGHUP reloads
    the certificates, and does nothing if there are none.
    """
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(server, ready))


def event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest event loop available on this system; None for Python's own."""
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not available on Windows

    return uvloop.new_event_loop


async def _serve(server: Server, ready: Callable[[Server], None] | None) -> None:
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[signal.Signals] = loop.create_future()

    def stop(number: signal.Signals) -> None:
        if asked.done():
            # The second signal: end at once. Nothing that was acknowledged is lost, however a server ends.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        else:
            asked.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    if sys.platform != "win32":
        # Also without certificates: an unhandled SIGHUP would end the process.
        loop.add_signal_handler(signal.SIGHUP, server.reload_certificates)
    async with server:
        restore_gc = tune_gc(lambda: len(server.sessions))
        try:
            if ready is not None:
                ready(server)
            if await asked is signal.SIGTERM:
                await server.drain()
        finally:
            restore_gc()
