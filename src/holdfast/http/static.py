"""Files: the built dashboard, and a game's own pages under /play.

`make web` builds the dashboard's files, and the wheel contains them; without them a page explains how to get them.

A game's pages have the same origin as the API, so they are shown to this machine only: for others, use a web server.
Beside them are the JavaScript client at /holdfast.js, and the game's address at /holdfast.json.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPMethod, HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from holdfast.core.addresses import hostname, is_loopback, is_unspecified

_SITE = Path(__file__).with_name("site")
PLAY = "/play"
CLIENT = "/holdfast.js"
ADDRESS = "/holdfast.json"
"""Tells a page where to connect, whatever ports the server was given: {"url": "ws://127.0.0.1:7777"}."""
CLIENT_FILE = _SITE / "holdfast.js"

# Files are read whole.
FILE_BYTES_MAX = 64 * 1024 * 1024
_INDEX = "index.html"
# A table of our own: those of the operating system differ, and a browser runs no script of the wrong type.
_MEDIA_TYPES: Mapping[str, str] = {
    **{f".{name}": f"image/{name}" for name in ("avif", "gif", "jpeg", "png", "webp")},
    **{f".{name}": f"font/{name}" for name in ("ttf", "woff", "woff2")},
    **{f".{name}": f"text/{name}; charset=utf-8" for name in ("css", "html")},
    ".glb": "model/gltf-binary",
    ".gltf": "model/gltf+json",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".ogg": "audio/ogg",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".wav": "audio/wav",
    ".webm": "video/webm",
    ".webmanifest": "application/manifest+json",
}
_OTHER = "application/octet-stream"
_NO_GAME_PORT = "This server has no WebSocket port, and a page cannot use another one.\n"
_NO_CLIENT = (
    "This installation has no JavaScript client: in a checkout of the source run `make web`, or install the wheel.\n"
)

Send = Callable[[Any], Awaitable[None]]

# What a build of the dashboard consists of, beside its page.
_BUILT = frozenset({".js", ".css", ".svg"})
# Scripts and styles only of this server, none within the page, nothing from elsewhere, and no page around it. The
# playground connects to the game's port, whose address is typed in: that alone may be anywhere.
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self' ws: wss:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
"""On everything of the dashboard; nosniff and no-store are on every answer."""

_NOT_BUILT = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Holdfast</title>
<h1>Holdfast is running</h1>
<p>This installation has no dashboard: its files were not built.</p>
<p>In a checkout of the source, run <code>make web</code> and start the server again. Or install the wheel, which
has them.</p>
<p>The HTTP API works without it: see <a href="/docs">its documentation</a>.</p>
</html>
"""


class SiteFile(NamedTuple):
    """One file, as it is sent; Litestar adds the charset."""

    content: bytes
    media_type: str


class Site:
    """The dashboard: its page, and the script and style that the page loads."""

    def __init__(self, folder: Path = _SITE) -> None:
        page = folder / "index.html"
        self.is_built = page.is_file()
        self.page = page.read_bytes() if self.is_built else _NOT_BUILT
        self.files: dict[str, SiteFile] = {}
        for file in sorted(folder.glob("assets/*")) if self.is_built else []:
            if file.suffix in _BUILT:
                self.files[file.name] = SiteFile(file.read_bytes(), _MEDIA_TYPES[file.suffix].partition(";")[0])


class FileAnswer(NamedTuple):
    """What is sent for one request."""

    status: HTTPStatus
    media_type: str
    body: bytes
    location: str = ""


class Folder:
    """Serves the files of a folder below `PLAY`, and nothing outside of it."""

    def __init__(
        self, root: Path, client_file: Path = CLIENT_FILE, *, game_url: Callable[[], str] = lambda: ""
    ) -> None:
        """`game_url` is the address of the game's WebSocket port, or empty."""
        self._root = root.resolve()
        self._client_file = client_file
        self._game_url = game_url

    @staticmethod
    def owns(path: str) -> bool:
        """Whether a raw path is served from here."""
        return path in {PLAY, CLIENT, ADDRESS} or path.startswith(f"{PLAY}/")

    async def respond(self, scope: Mapping[str, Any], path: str, send: Send) -> None:
        method: str = scope["method"]
        host = hostname(next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1"))
        if not is_loopback(host):
            # A page whose own name was made to point here (DNS rebinding) still sends that name as its host.
            answer = _said(HTTPStatus.FORBIDDEN, "Use localhost or 127.0.0.1 as the host.\n")
        elif method not in {HTTPMethod.GET, HTTPMethod.HEAD}:
            answer = _said(HTTPStatus.METHOD_NOT_ALLOWED, "Files can only be read.\n")
        elif path == ADDRESS:
            answer = self._address(host)
        else:
            # In a thread: the disk may be slow, and the event loop must not wait for it.
            answer = await asyncio.to_thread(self.find, path)
        headers = [
            (b"content-type", answer.media_type.encode()),
            (b"content-length", str(len(answer.body)).encode()),
        ]
        if answer.location:
            headers.append((b"location", answer.location.encode()))
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
        body = b"" if method == HTTPMethod.HEAD else answer.body
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _address(self, host: str) -> FileAnswer:
        """The game's address, for a page that was loaded from this host."""
        url = self._game_url()
        if not url:
            return _said(HTTPStatus.NOT_FOUND, _NO_GAME_PORT)
        parts = urlsplit(url)
        if is_loopback(parts.hostname or "") or is_unspecified(parts.hostname or ""):
            # Under the name of the page's own host, which the certificate is for, if there is one.
            name = f"[{host}]" if ":" in host else host
            url = f"{parts.scheme}://{name}:{parts.port}"
        return FileAnswer(HTTPStatus.OK, _MEDIA_TYPES[".json"], msgspec.json.encode({"url": url}))

    def find(self, path: str) -> FileAnswer:
        if path == CLIENT:
            return _file(self._client_file) or _said(HTTPStatus.NOT_FOUND, _NO_CLIENT)
        if path == PLAY:
            # Without the slash, the page's relative links would lead to the folder above.
            return _said(HTTPStatus.TEMPORARY_REDIRECT, "", location=f"{PLAY}/")
        file = self._within(unquote(path.removeprefix(f"{PLAY}/")))
        return (file and _file(file)) or _said(HTTPStatus.NOT_FOUND, "There is no such file in the game's folder.\n")

    def _within(self, wanted: str) -> Path | None:
        """The file, if it may be shown: inside the folder, also when links are followed, and not hidden."""
        *folders, last = wanted.split("/")
        parts = [*folders, last or _INDEX]
        if not all(map(_is_plain, parts)):
            return None
        try:
            file = self._root.joinpath(*parts).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return None
        if not file.is_relative_to(self._root) or not all(map(_is_plain, file.relative_to(self._root).parts)):
            return None
        return file


def _is_plain(part: str) -> bool:
    """Whether it is a plain name: not empty, hidden or "..", without separators or drives of other systems."""
    return bool(part) and not part.startswith(".") and part.isprintable() and not set(part) & set('\\:*?"<>|')


def _file(path: Path) -> FileAnswer | None:
    try:
        if not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
            return None
        body = path.read_bytes()
    except OSError:
        return None
    return FileAnswer(HTTPStatus.OK, _MEDIA_TYPES.get(path.suffix.lower(), _OTHER), body)


def _said(status: HTTPStatus, text: str, *, location: str = "") -> FileAnswer:
    return FileAnswer(status, _MEDIA_TYPES[".txt"], text.encode(), location)
