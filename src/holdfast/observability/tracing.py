"""Traces of single messages, for OpenTelemetry: where a player's message spends its time in the server.

    holdfast.frame    from the payload's arrival until the message is handed to its room
    holdfast.turn     the room's turn: spans of the game's handler are its children
    holdfast.commit   in a room that commits: from the start of the commit until the store has it
    holdfast.send     until the first payload that carries the answer, or the acknowledgement, is written

Each is the child of the one before; gaps between two of them are waits. Only a sample of the messages is
traced. Importing this module imports OpenTelemetry; a server without tracing does not.
"""

import weakref
from collections.abc import Callable, Collection, Coroutine
from random import Random
from types import CoroutineType
from typing import Any

try:
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        Span,
        SpanKind,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
        get_tracer_provider,
        set_span_in_context,
        use_span,
    )
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("traces need OpenTelemetry: pip install holdfast[telemetry]") from missing

from holdfast.core.errors import Refused
from holdfast.core.room import Room, room_handlers
from holdfast.core.session import Player, Session
from holdfast.schemas.frames import Data

Run = Callable[..., Any]
Done = Callable[..., None]

# Traces that wait for a commit: no more are started while the store is slow.
_WAITING_MAX = 1_000


class Tracing:
    """What to trace, and where to send it: `Server(tracing=Tracing(sample=0.01))` traces one message in a hundred."""

    def __init__(self, *, tracer_provider: TracerProvider | None = None, sample: float = 0.01) -> None:
        """`tracer_provider` is OpenTelemetry's; by default the one of the whole process."""
        if not 0.0 <= sample <= 1.0:
            raise ValueError(f"sample is the share of messages to trace, from 0 to 1; got {sample}")
        self._provider = tracer_provider
        self._sample = sample

    def start(
        self,
        *,
        now: Callable[[], float],
        wall_clock: Callable[[], float],
        when_written: Callable[[Session, "MessageTrace"], None],
    ) -> "MessageTracer":
        """The traces of one server. `when_written` calls the trace's `sent` with the next payload to its session."""
        tracer = (self._provider or get_tracer_provider()).get_tracer("holdfast")
        return MessageTracer(tracer, self._sample, now, wall_clock, when_written)


class MessageTracer:
    """Samples messages, and follows them to their commit."""

    def __init__(
        self,
        tracer: Tracer,
        sample: float,
        now: Callable[[], float],
        wall_clock: Callable[[], float],
        when_written: Callable[[Session, "MessageTrace"], None],
    ) -> None:
        self.tracer = tracer
        self.now = now
        self.wall_clock = wall_clock
        self.when_written = when_written
        self._sample = sample
        # Not the server's own: tracing must not change the game's random numbers.
        self._entropy = Random().random  # noqa: S311 - a sample, not a secret
        self._waiting: dict[str, list[MessageTrace]] = {}
        self._leaving: dict[str, list[MessageTrace]] = {}
        self._leaving_since = 0.0
        self._waiting_count = 0

    def message(self, room: Room[Any], player: Player[Any], frame: Data, *, run: Run, done: Done) -> tuple[Run, Done]:
        """A player's message is handed to its room: returns what to run and to call instead."""
        if self._entropy() >= self._sample or self._waiting_count >= _WAITING_MAX:
            return run, done
        trace = MessageTrace(self, room, player.session, frame, run=run, done=done)
        return trace.run, trace.done

    # Commits

    def wait(self, room_id: str, trace: "MessageTrace") -> None:
        """A message was applied, and will be part of its room's next commit."""
        self._waiting.setdefault(room_id, []).append(trace)
        self._waiting_count += 1

    def cut(self, room_ids: Collection[str]) -> None:
        """A commit begins with everything that these rooms have applied."""
        self._leaving = {room_id: self._waiting.pop(room_id) for room_id in room_ids if room_id in self._waiting}
        self._waiting_count = sum(map(len, self._waiting.values()))
        self._leaving_since = self.now()

    def committed(self, room_id: str) -> None:
        """The store has it, and the output gate is about to open."""
        for trace in self._leaving.pop(room_id, ()):
            trace.step("holdfast.commit", self._leaving_since)
            trace.answer()

    def forget(self, room_id: str) -> None:
        """The room is no longer ours: nothing of it will be sent from here."""
        self._leaving.pop(room_id, None)
        self._waiting_count -= len(self._waiting.pop(room_id, ()))


class MessageTrace:
    """The trace of one message: each step is a child of the last, and its turn the parent of the game's own spans."""

    def __init__(
        self, tracer: MessageTracer, room: Room[Any], session: Session, frame: Data, *, run: Run, done: Done
    ) -> None:
        self._tracer = tracer
        self._session = session
        self._run = run
        self._done = done
        self._turn: Span | None = None
        # All spans of a trace use one clock, whatever happens to the other.
        self._epoch_s = tracer.wall_clock() - tracer.now()
        self._context = Context()
        self._since = 0.0
        self._room_id = room.id
        self._is_committed = room.durability == "commit"
        self._attributes: dict[str, str | int] = {
            "holdfast.session.id": session.id,
            "holdfast.room.id": room.id,
            "holdfast.room.kind": room.kind,
            # A client may send any name: only those that the game knows are shown.
            "holdfast.message.type": frame.type if frame.type in room_handlers(type(room)) else "unknown",
            "holdfast.message.seq": frame.seq,
        }
        arrived_at = session.connection.heard_at if session.connection is not None else tracer.now()
        self.step("holdfast.frame", arrived_at, {"holdfast.message.bytes": len(frame.body)})

    def step(self, name: str, began_at: float, more: dict[str, int] | None = None) -> None:
        """Record a step that has just ended."""
        self._end(self._begin(name, began_at, more or {}))

    def _begin(self, name: str, at: float, more: dict[str, int]) -> Span:
        # A client's message begins a trace: it is not a child of the process's current span.
        kind = SpanKind.INTERNAL if self._context else SpanKind.SERVER
        return self._tracer.tracer.start_span(
            name, self._context, kind, {**self._attributes, **more}, start_time=self._ns(at)
        )

    def _end(self, span: Span) -> None:
        self._since = self._tracer.now()
        self._context = set_span_in_context(span, self._context)
        span.end(self._ns(self._since))

    def _ns(self, at: float) -> int:
        return int((self._epoch_s + at) * 1e9)

    # The turn

    def run(self, *args: Any) -> Any:
        """Take the turn within a span."""
        span = self._turn = self._begin("holdfast.turn", self._tracer.now(), {})
        with _within(span):
            result = self._run(*args)
        if type(result) is not CoroutineType:
            return result
        around = self._await(span, result)
        # If this is never awaited, neither is the game's coroutine: close it, so that Python does not warn.
        weakref.finalize(around, result.close)
        return around

    @staticmethod
    async def _await(span: Span, work: Coroutine[Any, Any, Any]) -> Any:
        with _within(span):
            return await work

    def done(self, error: Exception | None, result: Any, *args: Any) -> None:
        """The turn is over, or will never be taken."""
        try:
            self._done(error, result, *args)
        finally:
            if self._turn is not None:
                self._turn_ended(self._turn, error)

    def _turn_ended(self, span: Span, error: Exception | None) -> None:
        outcome = "applied" if error is None else "refused" if isinstance(error, Refused) else "failed"
        span.set_attribute("holdfast.turn.outcome", outcome)
        if outcome == "failed":
            # Only the type: the message may quote the player.
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        self._end(span)
        if self._is_committed:
            self._tracer.wait(self._room_id, self)
        else:
            self.answer()

    # The answer

    def answer(self) -> None:
        """The answer may be sent: with the next payload to the sender, if they are still connected."""
        self._tracer.when_written(self._session, self)

    def sent(self, frames: int, size: int) -> None:
        """That payload was written."""
        self.step("holdfast.send", self._since, {"holdfast.send.frames": frames, "holdfast.send.bytes": size})


def _within(span: Span) -> Any:
    return use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False)
