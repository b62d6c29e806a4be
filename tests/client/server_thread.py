"""A real server in a thread of its own, for tests that have no loop."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from holdfast import Server
from tests.client.game import url_of
from tests.deadlines import DEADLINE_S


class ServerThread:
    """A server for tests that have no loop; `do` runs something beside it."""

    def __init__(self, server: Server) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = server
        self.do(self.server.start)
        self.url = url_of(self.server)

    def do(self, work: Callable[[], Any]) -> Any:
        async def done() -> Any:
            result = work()
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(DEADLINE_S)

    def stop(self) -> None:
        self.do(self.server.stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
