"""The Autobahn test suite, all of it, against an echo over our WebSocket transport.

Each of the 216 cases for compression sends a few messages here, and a thousand as the suite has it (some minutes) with

    HOLDFAST_AUTOBAHN_MESSAGES=1000 python -m pytest tests/transports/test_autobahn.py -o faulthandler_timeout=0
"""

import asyncio
import json
import os

from tests.e2e.serving import python_process
from tests.transports.echo import echo_server

# Twenty times what it takes.
SUITE_S = 250.0
MESSAGES = int(os.environ.get("HOLDFAST_AUTOBAHN_MESSAGES", "4"))
# Right by the standard, and not as early as the suite would like. picows looks one frame ahead: a message that has come
# in one segment with a frame that is no frame is not echoed before the close (4.x). And it delivers whole frames, so
# that wrong text is found out at the end of its frame, not in the middle of it (6.x).
LATE = {"4.1.3", "4.1.4", "4.1.5", "4.2.3", "4.2.4", "4.2.5", "6.4.3", "6.4.4"}
# What the standard leaves open.
OPEN = {"7.1.6", "7.13.1", "7.13.2"}


async def test_every_case_of_the_autobahn_suite_passes() -> None:
    async with (
        echo_server() as url,
        python_process("-m", "tests.transports.autobahn", url, str(MESSAGES)) as process,
        asyncio.timeout(SUITE_S * max(1, MESSAGES / 4)),
    ):
        stdout, stderr = await process.communicate()

    assert process.returncode == 0, stderr.decode()
    verdicts = {case: tuple(verdict) for case, verdict in json.loads(stdout).items()}
    assert len(verdicts) == 517
    assert {case: verdict for case, verdict in verdicts.items() if verdict != ("OK", "OK")} == {
        **{case: verdict for case, verdict in verdicts.items() if case in LATE and verdict == ("NON-STRICT", "OK")},
        **dict.fromkeys(OPEN, ("INFORMATIONAL", "INFORMATIONAL")),
    }
