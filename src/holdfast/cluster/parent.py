"""Processes that end with the one that started them, also if that one is killed.

Only Linux can do it for any program; elsewhere a process has to notice by itself, as when its standard input ends.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

_PR_SET_PDEATHSIG = 1


def ends_with_this_process() -> Callable[[], None] | None:
    """The `preexec_fn` of a process that is to be killed when the thread that starts it ends; None if it cannot be."""
    if sys.platform != "linux":
        return None
    # Loaded here: between fork and exec nothing may wait for a lock of another thread.
    return partial(_end_with, os.getpid(), ctypes.CDLL(None).prctl)


def _end_with(parent: int, prctl: Callable[[int, int], int]) -> None:
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It ended before this was asked for.
        os._exit(1)
