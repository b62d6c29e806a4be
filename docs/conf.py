"""How `make docs` builds the site: the guides as they are, and a reference made from the code."""

import re
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

import holdfast

project = "Holdfast"
version = release = holdfast.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["images", "reference/typescript/index.md"]
html_theme = "furo"
html_title = f"Holdfast {version}"
html_show_copyright = html_show_sphinx = False
# A quotation mark in a docstring is often that of a literal.
smartquotes = False
myst_heading_anchors = 4
# In docstrings, as everywhere, `name` is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
maximum_signature_line_length = 100
# Languages of the guides that the highlighter does not know.
lexers.update({name: TextLexer() for name in ("haproxy", "hex", "mermaid")})
# Types in signatures are links where they are unambiguous.
suppress_warnings = ["ref.python"]

# Objects that are handed out and never made by a game: how they are made is nobody's business.
MADE_BY_US = {
    *("Agent", "ClientRoom", "ClientSession", "Player", "PlayerStream", "Placement", "Room", "RoomList", "RoomWatch"),
    *("RoomAgent", "Session", "Spectator"),
}
# Which fields of a struct with a secret may be shown.
ENGINE = {"shown"}
# Of the server's own callers.
_HIDDEN_PARAMETER = re.compile(r",\s*_\w+: [^,()]+(?=[,)])")


def signature(
    _app: Sphinx, what: str, name: str, _obj: Any, _options: Any, said: str | None, returns: str | None
) -> Any:
    """Leave out what is not for games."""
    if what == "class" and name.rpartition(".")[2] in MADE_BY_US:
        return "", returns
    return (_HIDDEN_PARAMETER.sub("", said) if said else said), returns


def skip(_app: Sphinx, _what: str, name: str, _member: Any, is_skipped: bool, _options: Any) -> bool | None:
    """Fields for the engine are not shown."""
    return True if name in ENGINE or is_skipped else None


def tidy(_app: Sphinx, page: str, source: list[str]) -> None:
    """A property of TypeScript is its signature and a sentence: nothing is headed, or said twice."""
    if page.startswith("reference/typescript/"):
        text = source[0].replace("\n#### Get Signature\n", "").replace("\n***\n", "")
        source[0] = re.sub(r"\n##### Returns\n\n[^\n]+\n", "", text)


def setup(app: Sphinx) -> None:
    """Register the above."""
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-skip-member", skip)
    app.connect("source-read", tidy)
