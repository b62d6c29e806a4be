"""One life of the storm's server, as a program: `python -m tests.storm.server <store> <folder> <life> <pace>`.

It says on its standard output where it listens, and which rooms it has lost to another server.
"""

import logging
import random
import sys
from pathlib import Path

import holdfast
from holdfast import Effect, Server, Storage, WebSocket
from holdfast.server.durability.recovery import Pace
from holdfast.stores import open_store
from holdfast.testing import UNLIMITED
from tests.storm.audit import AuditStore
from tests.storm.game import Storm
from tests.storm.history import Writer
from tests.storm.life import end_with_parent

# Of all effects, so many fail before they did anything, and so many after.
_FAILS_BEFORE, _FAILS_AFTER = 0.03, 0.03


class Cashier:
    """Who carries the effects out; the file is the world outside."""

    def __init__(self, file: Path) -> None:
        self._paid = Writer(file)

    async def pay(self, effect: Effect) -> None:
        entropy = random.random()
        if entropy < _FAILS_BEFORE:
            raise ConnectionError("the bank does not answer")
        if not self._paid.note("paid", effect.key, *effect.payload):
            raise OSError("the bank cannot write")
        if entropy > 1 - _FAILS_AFTER:
            raise ConnectionError("the bank's answer is lost")


def say(line: str) -> None:
    """To the controller."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(store: str, folder: Path, life: int, pace: Pace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    end_with_parent()
    trail = Writer(folder / f"audit-{life}.jsonl")
    server = Server(
        [Storm],
        listen=[WebSocket(port=0)],
        # Taken over: a zombie that is stopped does not let go of the file.
        store=Storage(AuditStore(open_store(store), trail, say=say), recovery=pace, takeover=True),
        effects={"pay": Cashier(folder / "effects.jsonl").pay},
        limits=UNLIMITED,
    )
    holdfast.run(server, ready=lambda server: say(f"ready {server.addresses['websocket'][1]}"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), "lazy" if sys.argv[4] == "lazy" else "eager")
