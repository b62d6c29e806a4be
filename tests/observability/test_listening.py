"""`server.on`: what it takes, and what it says to the rest."""

from typing import Any

import pytest

from holdfast import Server
from holdfast.events import Dropped, Event
from tests.server.world import chat


def handler(event: Event) -> None:
    """Never called."""


@pytest.mark.parametrize(
    "wrong", [handler, Server, int, "session.dropped", Dropped | int, None], ids=lambda wrong: repr(wrong)[:20]
)
def test_what_is_no_type_of_event_is_refused_at_once(wrong: Any) -> None:
    server = Server([chat()])

    # `@server.on` without its parentheses, among others: it would never be told of anything.
    with pytest.raises(TypeError, match=r"server\.on takes a type of event: @server\.on\(Dropped\)"):
        server.on(wrong)
    with pytest.raises(TypeError, match="takes a type of event"):
        server.on(wrong, handler)


def test_a_handler_stays_what_it_was() -> None:
    server = Server([chat()])

    assert server.on(Dropped)(handler) is handler
    assert server.on(Event, handler) is handler
