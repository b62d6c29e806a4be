"""Runs the cases of the Autobahn test suite, through kosoku, against a WebSocket server that echoes.

    python -m tests.transports.autobahn ws://127.0.0.1:9001 [messages]

Prints one JSON object: each case's verdict on the messages and on the close. A process of its own, because kosoku puts
modules of its own in front of everybody else's. Each case for compression sends a thousand messages, or as many as are
asked for.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from kosoku import FailureError, run_fuzzingclient
from kosoku.cases import CASES

CONCURRENCY = 4

OnMessage = Callable[[Any, str | bytes, bool], None]


def adapt(case: Any, messages: int) -> None:
    """A case for compression, for this run."""
    case.COUNT = messages
    case.onMessage = with_bytes(case.onMessage)


def with_bytes(on_message: OnMessage) -> OnMessage:
    """kosoku 0.1.0 hands over what it hears as Python 2 did, a character for each byte; these cases hash bytes."""

    def on_bytes(case: Any, message: str | bytes, binary: bool) -> None:
        on_message(case, message.encode("latin-1") if isinstance(message, str) else message, binary)

    return on_bytes


async def verdicts(url: str, cases: list[str] | None = None, concurrency: int = CONCURRENCY) -> dict[str, list[str]]:
    try:
        results = await run_fuzzingclient(url, cases, concurrency=concurrency)
    except FailureError as failure:
        results = failure.results
    return {result.case_id: [result.behavior.value, result.behavior_close.value] for result in results}


async def verdicts_in_peace(url: str) -> dict[str, list[str]]:
    """Those that failed are asked once more, alone: the suite waits a second for some things, on a busy machine."""
    first = await verdicts(url)
    failed = [case for case, verdict in first.items() if any("FAILED" in each for each in verdict)]
    return first | (await verdicts(url, failed, 1) if failed else {})


if __name__ == "__main__":
    for name, case in CASES.items():
        if name.startswith(("12.", "13.")):
            adapt(case, int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
    json.dump(asyncio.run(verdicts_in_peace(sys.argv[1])), sys.stdout)
    sys.stdout.flush()
    # Not the usual way: with everything said, kosoku sometimes aborts while it is taken down.
    os._exit(0)
