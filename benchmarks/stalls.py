"""What the event loop was busy with when it was busy for long: another thread looks at its stack meanwhile."""

import asyncio
import gc
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any

from benchmarks.game import Stall

# How often the loop calls, and how often the other thread looks.
PERIOD_S = 0.001
# The loop was busy for at least so long.
LEAST_S = 0.005
KEPT_MAX = 2_000
# A cause is named by so many functions: what the loop called, and what that was doing.
GARBAGE = "garbage collection"
OUTSIDE = "the loop itself: sockets, or the system"


class Stalls:
    """Watches the loop that it is made on."""

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._called_at = time.perf_counter()
        self._cpu_s = time.thread_time()
        self._collecting = False
        self._seen: Counter[str] = Counter()
        self._stalls: list[Stall] = []
        gc.callbacks.append(self._collects)
        # Or the other thread would wait for 5 ms to be let in.
        sys.setswitchinterval(PERIOD_S / 2)
        self._call()
        threading.Thread(target=self._watch, daemon=True).start()

    def taken(self) -> list[Stall]:
        """Those since the last time, the longest first."""
        stalls, self._stalls = self._stalls, []
        return sorted(stalls, key=lambda stall: -stall.ms)

    def _call(self) -> None:
        now, cpu_s = time.perf_counter(), time.thread_time()
        busy_s, used_s = now - self._called_at - PERIOD_S, cpu_s - self._cpu_s
        self._called_at, self._cpu_s = now, cpu_s
        seen, self._seen = self._seen, Counter()
        if busy_s >= LEAST_S and len(self._stalls) < KEPT_MAX:
            self._stalls.append(Stall(busy_s * 1e3, used_s * 1e3, dict(seen)))
        self._loop.call_later(PERIOD_S, self._call)

    def _collects(self, phase: str, _: dict[str, Any]) -> None:
        self._collecting = phase == "start"
        if self._collecting and time.perf_counter() - self._called_at > PERIOD_S:
            # No other thread runs meanwhile: without this it would never be seen.
            self._seen[GARBAGE] += 1

    def _watch(self) -> None:
        while True:
            time.sleep(PERIOD_S)
            # Not what takes no longer than a turn should: most of it would be the loop's waiting.
            if time.perf_counter() - self._called_at > 2 * PERIOD_S:
                frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - the documented name
                self._seen[_cause(frame)] += 1


def _cause(frame: FrameType | None) -> str:
    """What the loop has called, and the innermost function of ours that this has led to."""
    names: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith("asyncio/runners.py"):
            break
        if "/holdfast/" in code.co_filename or "/benchmarks/" in code.co_filename:
            names.append(code.co_qualname)
        frame = frame.f_back
    if not names:
        return OUTSIDE
    return names[-1] if len(names) == 1 else f"{names[-1]} → {names[0]}"
