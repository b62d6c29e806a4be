"""The built files of the dashboard, read once. What is not in the folder is not served: no request is ever a path.

`make web` builds them; the wheel has them. A server without them runs all the same, and its page says how to get them.
"""

from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).with_name("site")
# A build is a page, a script and a style.
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

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
    """One file, as it is sent."""

    content: bytes
    media_type: str


class Site:
    """The page and its files."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        page = folder / "index.html"
        self.is_built = page.is_file()
        self.page = page.read_bytes() if self.is_built else _NOT_BUILT
        self.files: dict[str, SiteFile] = {}
        for file in sorted(folder.glob("assets/*")) if self.is_built else []:
            if file.suffix in _MEDIA_TYPES:
                self.files[file.name] = SiteFile(file.read_bytes(), _MEDIA_TYPES[file.suffix])
