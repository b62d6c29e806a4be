"""A server that has a supervisor: what it keeps from one life to the next, and how it hears that its life is over."""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import Room
from holdfast.cli.reload.supervisor import STOP_S


@dataclass(frozen=True, slots=True)
class Supervised:
    """The folder that lives as long as the supervisor."""

    folder: Path

    @property
    def store(self) -> str:
        """Where rooms are kept, if nowhere else."""
        return f"sqlite:{self.folder / 'rooms.db'}"

    def obey(self, *, patience_s: float = 2 * STOP_S) -> None:
        """End this process, as Ctrl-C would, when the supervisor closes our standard input or is gone itself."""
        # Until the server runs, and hears it by itself. In silence: the supervisor says why.
        signal.signal(signal.SIGINT, lambda _number, _frame: sys.exit(1))
        threading.Thread(target=_wait_for_the_end, args=(patience_s,), name="supervised", daemon=True).start()

    def facts(self, rooms: Sequence[type[Room[Any]]]) -> list[tuple[str, str]]:
        """What a change of the code does."""
        facts = [("reload", "starts again when a .py file changes; durable rooms go on, and their players come back")]
        forgotten = [room.kind for room in rooms if room.durability == "memory"]
        if forgotten:
            facts.append(
                ("", f'rooms in memory end each time: {", ".join(forgotten)}. durability = "commit" keeps them')
            )
        return facts


def _wait_for_the_end(patience_s: float) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    # A game that is caught in a loop does not hear it, and if the supervisor was killed nobody else ends us.
    time.sleep(patience_s)
    os._exit(1)
