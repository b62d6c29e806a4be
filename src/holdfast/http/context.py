"""What the routes, the guard and the server of one app share."""

from dataclasses import dataclass, field
from typing import Any

from litestar import Litestar

from holdfast.http.events import Streams
from holdfast.http.keys import ApiKey
from holdfast.http.limits import HttpLimits


@dataclass(slots=True)
class Context:
    """One app's own."""

    keys: tuple[ApiKey, ...]
    limits: HttpLimits
    streams: Streams
    document: dict[str, Any] = field(default_factory=dict)
    """Drawn from the app's routes, once it has them."""


def context_of(app: Litestar) -> Context:
    """The context that `make_app` gave to an app."""
    context = app.state["context"]
    assert isinstance(context, Context)
    return context
