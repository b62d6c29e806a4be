"""The HTTP API as a setting of a server. This module imports neither Litestar nor uvicorn, which take half a second:
they are imported when the API opens, and never if it does not."""

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING

from holdfast.core.addresses import is_loopback
from holdfast.http.keys import ApiKey
from holdfast.http.limits import DEFAULT_HOST, DEFAULT_PORT, HttpLimits, check_binding
from holdfast.http.static import Folder

if TYPE_CHECKING:
    # Not at run time: a command line that only needs the defaults would import the server.
    from holdfast.server.operations import Operations


class HttpApi:
    """The address to listen on, and the keys; raises `ValueError` if it would be open to everybody."""

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        *,
        keys: Sequence[ApiKey] = (),
        limits: HttpLimits | None = None,
        ssl: SSLContext | None = None,
        web: Path | None = None,
    ) -> None:
        """With an `ssl` context it serves https://; `tls.context` is that of the game's own ports.

        `web` is a folder with a game's own pages, shown under /play to this machine only.
        """
        check_binding(host, has_keys=bool(keys))
        if web is not None and not is_loopback(host):
            raise ValueError(
                f"the pages in {web} would have the same origin as the API: listen on 127.0.0.1, and put them on"
                " a web server for others"
            )
        self._host = host
        self._port = port
        self._keys = tuple(keys)
        self._limits = limits
        self._ssl = ssl
        self.web = web
        self._stop: Callable[[], Awaitable[None]] | None = None

    @property
    def scheme(self) -> str:
        """The scheme of its URL."""
        return "http" if self._ssl is None else "https"

    async def open(self, operations: "Operations") -> tuple[str, int]:
        """Start serving; returns the address. Raises `OSError` if it is in use."""
        folder = None
        if self.web is not None:
            folder = Folder(self.web, game_url=lambda: operations.node.settings().urls.get("websocket", ""))
        # By name, so that they are imported now, and not with this module.
        app = import_module("holdfast.http.app").App(operations, self._keys, self._limits, folder=folder)
        server = import_module("holdfast.http.serving").HttpServer(app, self._host, self._port, ssl=self._ssl)
        await server.start()
        self._stop = server.stop
        address: tuple[str, int] = server.address
        return address

    async def close(self) -> None:
        """Stop serving; streams end, and responses in progress get a moment."""
        if self._stop is not None:
            stop, self._stop = self._stop, None
            await stop()
