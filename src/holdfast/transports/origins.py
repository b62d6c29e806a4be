"""Which web pages may open a WebSocket here: the allow-list of origins.

A browser sends the site of the page that connects in `Origin`, and no page can change it. So the list stops other
sites' pages from using a player's browser; it stops nothing else: a program may send any `Origin`, or none.
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
# What browsers send for pages without a site: files and sandboxes. Electron sends the second.
_WITHOUT_SITE = {"null", "file://"}
_ANY = "*"
# A host by its name or address. Browsers send names with other letters as punycode.
_SITE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")


class Origins:
    """Origins such as "https://game.example", "https://*.game.example" for every site below it, or "*" for all."""

    def __init__(self, names: Iterable[str]) -> None:
        """`ValueError` for an invalid origin."""
        if isinstance(names, str):
            raise ValueError(f"origins are a list, as in [{names!r}]")  # noqa: TRY004 - see above
        self.names = tuple(names)
        self._exact: set[str] = set()
        self._below: list[tuple[str, str]] = []
        self._any = False
        for name in self.names:
            self._add(name)

    def _add(self, name: str) -> None:
        if name == _ANY:
            self._any = True
            return
        below = "://*." in name
        origin = _normal(name.replace("*.", "", 1) if below else name)
        if origin is None:
            raise ValueError(
                f'an origin is a scheme, a host, and a port if it is not the default, as in "https://game.example"; '
                f"got {name!r}"
            )
        scheme, _, site = origin.partition("://")
        if below:
            self._below.append((f"{scheme}://", f".{site}"))
        else:
            self._exact.add(origin)

    def allow(self, headers: Sequence[str]) -> bool:
        """Whether a request with these `Origin` headers is allowed; one without is not from a web page."""
        if self._any or not headers:
            return True
        origin = _normal(headers[0]) if len(headers) == 1 else None
        if origin is None:
            return False
        return origin in self._exact or any(
            origin.startswith(start) and origin.endswith(end) and len(origin) > len(start) + len(end)
            for start, end in self._below
        )


def _normal(text: str) -> str | None:
    """An origin as browsers write it: in lower case, without the default port."""
    text = text.strip().lower()
    if text in _WITHOUT_SITE:
        return text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    site = parts.netloc if port is None else parts.netloc.rpartition(":")[0]
    if not parts.scheme or f"{parts.scheme}://{parts.netloc}" != text or not _SITE.fullmatch(site):
        return None
    return f"{parts.scheme}://{site}" + ("" if port in {None, _DEFAULT_PORTS.get(parts.scheme)} else f":{port}")
