"""The demo page's network: each visitor's link goes through a proxy that the page can unplug and slow down."""

import secrets
from random import Random

from holdfast.cli.demo.proxy import Proxy

# Each is a listening socket. When there are more, the one that was not asked for the longest gives way.
LINKS_MAX = 64


class Links:
    """Proxies by a name that only the visitor knows. A page that is loaded again finds its own."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._proxies: dict[str, Proxy] = {}
        self._target = ("127.0.0.1", 0)

    def moved(self, host: str, port: int) -> None:
        """The server is there from now on."""
        self._target = (host, port)
        for proxy in self._proxies.values():
            proxy.target = self._target

    async def open(self, name: str = "") -> tuple[str, Proxy]:
        """A visitor's own link if there is one of that name, or else a new one; plugged in, and as fast as it goes."""
        proxy = self._proxies.pop(name, None)
        if proxy is None:
            name = secrets.token_urlsafe(12)
            proxy = Proxy(*self._target, random=self._random)
            await proxy.start()
        self._proxies[name] = proxy
        # The server may have moved while the door was opened.
        proxy.target = self._target
        proxy.plug()
        proxy.delay_s = 0.0
        while len(self._proxies) > LINKS_MAX:
            await self._proxies.pop(next(iter(self._proxies))).stop()
        return name, proxy

    def get(self, name: str) -> Proxy | None:
        """The link of that name."""
        return self._proxies.get(name)

    async def close(self) -> None:
        """Close them all."""
        proxies, self._proxies = self._proxies, {}
        for proxy in proxies.values():
            await proxy.stop()
