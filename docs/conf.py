"""How `make docs` builds the site: the guides as they are, and a reference made from the code."""

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

import holdfast

project = "Holdfast"
version = release = holdfast.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["images", "reference/typescript/index.md"]
html_theme = "furo"
html_title = f"Holdfast {version}"
html_show_copyright = html_show_sphinx = False
myst_heading_anchors = 4
# In docstrings, as everywhere, `name` is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
maximum_signature_line_length = 100
# Languages of the guides that the highlighter does not know.
lexers.update({name: TextLexer() for name in ("haproxy", "hex", "mermaid")})
# Types in signatures are links where they are unambiguous.
suppress_warnings = ["ref.python"]
