"""A session that waits for its player takes little: thousands of them wait after a cut of the network."""

import gc
import tracemalloc

from holdfast.core.connection import Connection, ConnectionId
from holdfast.core.limits import Limits
from holdfast.core.rates import Flood, Rates
from holdfast.core.session import PlayerId, Session, SessionId

COUNT = 500
LIMITS = Limits()
RATES = Rates(LIMITS)


def held(number: int) -> Session:
    """A session that had a seat, said and heard something, and lost its connection."""
    session = Session(SessionId(f"s-{number}"), PlayerId(f"p-{number}"), limits=LIMITS, now=0.0, grace_s=30.0)
    session.attach(Connection(ConnectionId(f"c-{number}"), 0.0), now=0.0)
    session.tokens.issue(bytes(32))
    session.flood = Flood(RATES)
    channel = session.open_channel()
    channel.push("said", b"hello")
    channel.take()
    channel.acknowledge(1)
    session.flood.messages.take(1.0)
    session.detach(now=2.0)
    return session


def test_a_held_session_with_its_channel_and_its_tokens_takes_little() -> None:
    held(0)
    gc.collect()
    tracemalloc.start()
    try:
        sessions = [held(number) for number in range(COUNT)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(sessions) == COUNT
    assert size / COUNT < 1200
