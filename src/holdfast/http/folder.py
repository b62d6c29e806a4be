"""A game's own pages under /play, the JavaScript client at /holdfast.js, and where the game is at /holdfast.json.

The pages have the same origin as the API, so they are shown to this machine only. For others, use a web server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPMethod, HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from holdfast.http.hosts import hostname, is_loopback, is_unspecified

PLAY = "/play"
CLIENT = "/holdfast.js"
ADDRESS = "/holdfast.json"
"""Tells a page where to connect, whatever ports the server was given: {"url": "ws://127.0.0.1:7777"}."""
CLIENT_FILE = Path(__file__).with_name("site") / "holdfast.js"

# Larger files are not for a page that is being developed, and would be read whole.
FILE_BYTES_MAX = 64 * 1024 * 1024
_INDEX = "index.html"
# Not those of the machine's own tables: they differ, and a script of the wrong type does not run.
_MEDIA_TYPES: Mapping[str, str] = {
    ".avif": "image/avif",
    ".css": "text/css; charset=utf-8",
    ".gif": "image/gif",
    ".glb": "model/gltf-binary",
    ".gltf": "model/gltf+json",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".ogg": "audio/ogg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".wav": "audio/wav",
    ".webm": "video/webm",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_OTHER = "application/octet-stream"
_NO_GAME_PORT = "This server has no WebSocket port, and a page cannot use another one.\n"
_NO_CLIENT = (
    "This installation has no JavaScript client: in a checkout of the source run `make web`, or install the wheel.\n"
)

Send = Callable[[Any], Awaitable[None]]


class FileAnswer(NamedTuple):
    """What is sent for one request."""

    status: HTTPStatus
    media_type: str
    body: bytes
    location: str = ""


class Folder:
    """Answers what is asked for below `PLAY` with the files of a folder, and nothing outside of it."""

    def __init__(
        self, root: Path, client_file: Path = CLIENT_FILE, *, game_url: Callable[[], str] = lambda: ""
    ) -> None:
        """`game_url` is where the game's WebSocket port is open, or empty."""
        self._root = root.resolve()
        self._client_file = client_file
        self._game_url = game_url

    @staticmethod
    def owns(path: str) -> bool:
        """Whether a path, as it was asked for, is one of these."""
        return path in {PLAY, CLIENT, ADDRESS} or path.startswith(f"{PLAY}/")

    async def respond(self, scope: Mapping[str, Any], path: str, send: Send) -> None:
        """Answer one request, for a path as it was asked for."""
        method: str = scope["method"]
        if not _is_for_here(scope["headers"]):
            answer = _said(HTTPStatus.FORBIDDEN, "Ask for localhost or 127.0.0.1.\n")
        elif method not in {HTTPMethod.GET, HTTPMethod.HEAD}:
            answer = _said(HTTPStatus.METHOD_NOT_ALLOWED, "Files can be read, and nothing else.\n")
        elif path == ADDRESS:
            answer = self._address(_host(scope["headers"]))
        else:
            # The disk may be slow, and the games of this process must not wait for it.
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
        """Where the game is, for a page that was asked for at this host."""
        url = self._game_url()
        if not url:
            return _said(HTTPStatus.NOT_FOUND, _NO_GAME_PORT)
        parts = urlsplit(url)
        if is_loopback(parts.hostname or "") or is_unspecified(parts.hostname or ""):
            # By the name that the page has: its certificate, if there is one, is for that.
            name = f"[{host}]" if ":" in host else host
            url = f"{parts.scheme}://{name}:{parts.port}"
        return FileAnswer(HTTPStatus.OK, _MEDIA_TYPES[".json"], msgspec.json.encode({"url": url}))

    def find(self, path: str) -> FileAnswer:
        """The file that a path, as it was asked for, names."""
        if path == CLIENT:
            return _file(self._client_file) or _said(HTTPStatus.NOT_FOUND, _NO_CLIENT)
        if path == PLAY:
            # Else what the page names beside itself would be looked for above.
            return _said(HTTPStatus.TEMPORARY_REDIRECT, "", location=f"{PLAY}/")
        file = self._within(unquote(path.removeprefix(f"{PLAY}/")))
        return (file and _file(file)) or _said(HTTPStatus.NOT_FOUND, "There is no such file in the game's folder.\n")

    def _within(self, wanted: str) -> Path | None:
        """The path of a file that may be shown: below the folder, also when links are followed, and nothing hidden."""
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


def _is_for_here(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """A page whose own name was made to point here (DNS rebinding) still tells that name."""
    return is_loopback(_host(headers))


def _host(headers: Iterable[tuple[bytes, bytes]]) -> str:
    return hostname(next((value for name, value in headers if name == b"host"), b"").decode("latin-1"))


def _is_plain(part: str) -> bool:
    """Whether it is a name: not empty, not hidden, no way up, and no separator or drive of another system."""
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
