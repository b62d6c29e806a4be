"""What the routes, the guard and the server of one app share."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec
from litestar import Litestar

from holdfast.http.docs import page
from holdfast.http.events import Streams
from holdfast.http.folder import Folder
from holdfast.http.keys import ApiKey
from holdfast.http.limits import HttpLimits
from holdfast.http.site import Site

# A machine has a few addresses; each has its own examples on the page.
_PAGES_MAX = 8


class Context:
    """One app's own. Its documents are drawn once: whoever reads them needs no key, and must not cost the game time."""

    def __init__(self, keys: tuple[ApiKey, ...], limits: HttpLimits, site: Site, folder: Folder | None = None) -> None:
        self.keys = keys
        self.site = site
        self.folder = folder
        """A game's own pages, if it has some."""
        self.limits = limits
        self.streams = Streams(limits)
        self.game_urls: Callable[[], Sequence[str]] = list
        """Where players connect, for those who come to the API for that."""
        self.methods: dict[str, str] = {}
        """For the Allow header, by path."""
        self.describe({"paths": {}})

    def describe(self, document: dict[str, Any]) -> None:
        """Take the OpenAPI document, once the app has its routes."""
        self.document = document
        self.document_json = msgspec.json.encode(document)
        self.page = lru_cache(_PAGES_MAX)(partial(page, document))
        for path, operations in document["paths"].items():
            self.methods[path] = ", ".join([*map(str.upper, operations), "OPTIONS"])


def context_of(app: Litestar) -> Context:
    """The context that `make_app` gave to an app."""
    context = app.state["context"]
    assert isinstance(context, Context)
    return context
