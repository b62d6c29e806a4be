"""The API as a server is given it. Importing this imports neither Litestar nor uvicorn, which take half a second: they
are imported when the API opens, and never if it does not."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING

from holdfast.http.folder import Folder
from holdfast.http.hosts import DEFAULT_HOST, DEFAULT_PORT, check_binding, is_loopback
from holdfast.http.keys import ApiKey
from holdfast.http.limits import HttpLimits
from holdfast.http.port import Backend

if TYPE_CHECKING:
    from holdfast.http.serving import HttpServer


class HttpApi:
    """Where to listen, and for whom; `ValueError` if it would be open to everybody."""

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
        """With an `ssl` context it speaks https://; that of the players' doors is `tls.context`.

        `web` is a folder with a game's own pages, shown under /play to this machine only.
        """
        check_binding(host, has_keys=bool(keys))
        if web is not None and not is_loopback(host):
            raise ValueError(
                f"the pages in {web} would have the same origin as the API: let it listen at 127.0.0.1, and put them on"
                " a web server for others"
            )
        self._host = host
        self._port = port
        self._keys = tuple(keys)
        self._limits = limits
        self._ssl = ssl
        self.web = web
        self._server: HttpServer | None = None

    @property
    def scheme(self) -> str:
        """How its URL begins."""
        return "http" if self._ssl is None else "https"

    async def open(self, backend: Backend) -> tuple[str, int]:
        """Answer from now on; where. `OSError` if the address is taken."""
        folder = None
        if self.web is not None:
            folder = Folder(self.web, game_url=lambda: backend.settings().urls.get("websocket", ""))
        # By name, because they are to be imported now, and not with this module.
        app = import_module("holdfast.http.app").make_app(backend, self._keys, self._limits, folder=folder)
        serving = import_module("holdfast.http.serving")
        server: HttpServer = serving.HttpServer(app, self._host, self._port, ssl=self._ssl)
        await server.start()
        self._server = server
        return server.address

    async def close(self) -> None:
        """Answer nobody any more; streams end, and answers that are under way get a moment."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()
