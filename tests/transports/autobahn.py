"""Runs the cases of the Autobahn test suite, through kosoku, against a WebSocket server that echoes.

    python -m tests.transports.autobahn ws://127.0.0.1:9001 ['1.*' …]

Prints one JSON object: each case's verdict on the messages and on the close. A process of its own, because kosoku puts
modules of its own in front of everybody else's.
"""

import asyncio
import json
import sys

from kosoku import FailureError, run_fuzzingclient

CONCURRENCY = 4


async def verdicts(url: str, cases: list[str]) -> dict[str, list[str]]:
    try:
        results = await run_fuzzingclient(url, cases or None, concurrency=CONCURRENCY)
    except FailureError as failure:
        results = failure.results
    return {result.case_id: [result.behavior.value, result.behavior_close.value] for result in results}


if __name__ == "__main__":
    json.dump(asyncio.run(verdicts(sys.argv[1], sys.argv[2:])), sys.stdout)
