"""The way of a message as OpenTelemetry is told of it."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import ClientRoom, Message, Player, PlayerData, Refused, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.core.session import seat_of
from holdfast.observability.tracing import MessageTrace, Tracing
from holdfast.schemas.frames import Data
from tests.deadlines import DEADLINE_S
from tests.server.world import Gate, Say, World, player_in, room_of, server_side

SECRET = "the words of a player"


class Heard(Message):
    text: str


class Hall(Room[PlayerData]):
    """Answers what it is told; "nothing" is not answered, "no" is refused, "bug" fails."""

    state: list[str]

    def on_create(self, config: dict[str, Any]) -> Any:
        self.state = []

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> Any:
        match say.text:
            case "nothing":
                return
            case "no":
                raise Refused(SECRET)
            case "bug":
                raise ValueError(SECRET)
            case _:
                self.state.append(say.text)
                player.send(Heard(say.text))


class Vault(Hall):
    durability = "commit"


class Notebook(Hall):
    durability = "checkpoint"


class Traces(InMemorySpanExporter):
    """Where the spans go, and a way to wait for them."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._changed.set()
        return super().export(spans)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [span for span in self.get_finished_spans() if name in {"", span.name}]

    def of(self, seq: int) -> list[ReadableSpan]:
        """The spans of one message, oldest first."""
        found = [span for span in self.spans() if dict(span.attributes or {}).get("holdfast.message.seq") == seq]
        return sorted(found, key=lambda span: span.start_time or 0)

    async def until(self, name: str, times: int = 1) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.spans(name)) < times:
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def traces() -> Iterator[Traces]:
    traces = Traces()
    yield traces
    traces.provider.shutdown()


def all_of(traces: Traces) -> Tracing:
    return Tracing(tracer_provider=traces.provider, sample=1.0)


async def answer(room: ClientRoom, text: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await room.send(Say(text))
        assert await room.receive() == Heard(text)


def names(spans: Sequence[ReadableSpan]) -> list[str]:
    return [span.name.removeprefix("holdfast.") for span in spans]


def assert_one_trace_in_order(spans: Sequence[ReadableSpan]) -> None:
    """Each span is the child of the one before, and begins no earlier than that has ended."""
    assert spans[0].parent is None
    assert spans[0].kind is SpanKind.SERVER
    for before, after in pairwise(spans):
        assert after.parent == before.context
        assert before.end_time is not None
        assert after.start_time is not None
        assert before.end_time <= after.start_time
    assert len({span.context.trace_id for span in spans if span.context}) == 1


# One message, one trace


@pytest.mark.parametrize("kind", [Hall, Notebook])
async def test_a_message_to_a_room_that_keeps_nothing_back_is_a_frame_a_turn_and_a_send(
    world: World, traces: Traces, kind: type[Hall]
) -> None:
    server = await world.serve(kind, store="memory:", tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create(kind.kind)

    await answer(room, "hello")
    await traces.until("holdfast.send")

    spans = traces.of(seq=1)
    assert names(spans) == ["frame", "turn", "send"]
    assert_one_trace_in_order(spans)


async def test_a_message_to_a_room_that_commits_waits_for_the_commit_before_the_send(
    world: World, traces: Traces, tmp_path: Path
) -> None:
    server = await world.serve(Vault, store=f"sqlite:{tmp_path / 'game.db'}", tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("vault")

    await answer(room, "hello")
    await answer(room, "again")
    await traces.until("holdfast.send", times=2)

    for seq in (1, 2):
        spans = traces.of(seq)
        assert names(spans) == ["frame", "turn", "commit", "send"]
        assert_one_trace_in_order(spans)


async def test_every_span_tells_which_message_it_is_about(world: World, traces: Traces) -> None:
    server = await world.serve(Hall, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")

    await answer(room, "hello")
    await traces.until("holdfast.send")

    known = {
        "holdfast.session.id": session.id,
        "holdfast.room.id": room.id,
        "holdfast.room.kind": "hall",
        "holdfast.message.type": "say",
        "holdfast.message.seq": 1,
    }
    frame, turn, send = (dict(span.attributes or {}) for span in traces.of(seq=1))
    assert frame.items() >= known.items()
    assert turn.items() >= {**known, "holdfast.turn.outcome": "applied"}.items()
    assert send.items() >= known.items()
    assert frame["holdfast.message.bytes"] == len(b"\x81\xa4text\xa5hello")
    assert send["holdfast.send.frames"] == 1


async def test_a_message_that_is_not_answered_is_sent_its_acknowledgement(world: World, traces: Traces) -> None:
    server = await world.serve(Hall, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")

    await room.send(Say("nothing"))
    await traces.until("holdfast.send")

    assert names(traces.of(seq=1)) == ["frame", "turn", "send"]


async def test_many_messages_in_one_payload_are_many_traces(world: World, traces: Traces) -> None:
    server = await world.serve(Hall, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")

    await asyncio.gather(*(room.send(Say(f"{number}")) for number in range(5)))
    await traces.until("holdfast.send", times=5)

    assert [names(traces.of(seq)) for seq in range(1, 6)] == [["frame", "turn", "send"]] * 5
    assert len({span.context.trace_id for span in traces.spans() if span.context}) == 5


# What becomes of it


@pytest.mark.parametrize(("text", "outcome"), [("no", "refused"), ("bug", "failed")])
async def test_a_turn_that_goes_wrong_says_so_and_not_why(
    world: World, traces: Traces, text: str, outcome: str
) -> None:
    server = await world.serve(Hall, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")

    await room.send(Say(text))
    await traces.until("holdfast.send")

    (turn,) = traces.spans("holdfast.turn")
    assert dict(turn.attributes or {})["holdfast.turn.outcome"] == outcome
    assert turn.events == ()
    if outcome == "failed":
        assert (turn.status.status_code, turn.status.description) == (StatusCode.ERROR, "ValueError")
    else:
        assert turn.status.status_code is StatusCode.UNSET


async def test_what_a_message_is_called_is_told_only_if_the_game_has_named_it(world: World, traces: Traces) -> None:
    server = await world.serve(Hall, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")

    await room.send(Heard("not for rooms"))
    await traces.until("holdfast.send")

    (turn,) = traces.spans("holdfast.turn")
    assert dict(turn.attributes or {})["holdfast.message.type"] == "unknown"


async def test_an_ask_is_traced_as_the_message_in_it(world: World, traces: Traces) -> None:
    server = await world.serve(Hall, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")

    assert await room.ask(Say("nothing")) is None
    await traces.until("holdfast.send")

    assert names(traces.of(1)) == ["frame", "turn", "send"]
    (turn,) = traces.spans("holdfast.turn")
    assert dict(turn.attributes or {})["holdfast.message.type"] == "say"


async def test_no_span_holds_what_was_said_or_who_said_it(world: World, traces: Traces) -> None:
    server = await world.serve(Vault, store="memory:", tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("vault")

    await answer(room, SECRET)
    await room.send(Say("bug"))
    await traces.until("holdfast.send", times=2)

    told = "".join(span.to_json() for span in traces.spans())
    assert not [word for word in (SECRET, session.credential, session.player_id) if word in told]


class Slow(Hall):
    """Thinks until it is told to go on."""

    gate: asyncio.Event

    def on_create(self, config: dict[str, Any]) -> Any:
        super().on_create(config)
        self.gate = asyncio.Event()

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> Any:
        await self.gate.wait()
        player.send(Heard(say.text))


def slow_room(world_server: Any, room: ClientRoom) -> Slow:
    found = world_server.rooms.get(room.id)
    assert isinstance(found, Slow)
    return found


async def test_a_turn_that_waits_ends_when_it_is_over_and_the_next_begins_after_it(
    world: World, traces: Traces
) -> None:
    server = await world.serve(Slow, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("slow")

    await room.send(Say("one"))
    await room.send(Say("two"))
    await traces.until("holdfast.frame", times=2)
    assert traces.spans("holdfast.turn") == []
    slow_room(server, room).gate.set()
    await traces.until("holdfast.send", times=2)

    first, second = traces.of(seq=1), traces.of(seq=2)
    assert_one_trace_in_order(first)
    assert_one_trace_in_order(second)
    assert (first[1].end_time or 0) <= (second[1].start_time or 0)


async def test_who_drops_before_the_answer_has_a_trace_without_a_send(world: World, traces: Traces) -> None:
    gate = Gate()
    server = await world.serve(Slow, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard], dial=gate)
    room = await session.join_or_create("slow")
    await room.send(Say("one"))
    await traces.until("holdfast.frame")

    gate.shut()
    server_side(server, session).disconnect("a break")
    slow_room(server, room).gate.set()
    await traces.until("holdfast.turn")

    assert names(traces.of(seq=1)) == ["frame", "turn"]
    gate.open()


async def test_turns_that_are_never_taken_leave_nothing_behind(world: World, traces: Traces) -> None:
    server = await world.serve(Slow, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("slow")
    await room.send(Say("one"))
    await room.send(Say("two"))
    await traces.until("holdfast.frame", times=2)

    await server.stop()

    assert names(traces.of(seq=2)) == ["frame"]


async def test_a_turn_that_is_cancelled_before_it_began_complains_of_nothing(world: World, traces: Traces) -> None:
    server = await world.serve(Slow, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("slow")
    player = player_in(server, room, session)

    # In one go: the task of the turn has no chance to begin.
    seat = seat_of(player)
    seat.room.delivery.deliver(seat, Data(1, 1, 0, "say", Raw(MSGPACK.encode(Say("one")))))
    server.rooms.runner(room.id).abandon()
    await asyncio.sleep(0)
    gc.collect()

    # Its sender hears that the handler was cut off.
    assert names(traces.of(seq=1)) == ["frame", "turn", "send"]


async def test_what_a_room_has_not_saved_is_forgotten_with_the_room(world: World, traces: Traces) -> None:
    server = await world.serve(Hall, tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")
    tracing = server.parts.tracing
    assert tracing is not None
    frame = Data(1, 1, 0, "say", Raw(MSGPACK.encode(Say("one"))))
    here, sender = room_of(server, room), server_side(server, session)
    trace = MessageTrace(tracing, here, sender, frame, run=lambda: None, done=lambda *_: None)

    tracing.wait(room.id, trace)
    tracing.forget(room.id)
    tracing.cut([room.id])
    tracing.committed(room.id)

    assert names(traces.of(seq=1)) == ["frame"]


# The game's own spans


class Curious(Hall):
    """Has spans of its own, in handlers that wait and in those that do not."""

    traces: Traces

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> Any:
        with self.traces.provider.get_tracer("game").start_as_current_span("think"):
            player.send(Heard(say.text))


class Patient(Curious):
    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> Any:
        await asyncio.sleep(0)
        with self.traces.provider.get_tracer("game").start_as_current_span("think"):
            player.send(Heard(say.text))


@pytest.mark.parametrize("kind", [Curious, Patient])
async def test_spans_of_the_game_are_children_of_the_turn(world: World, traces: Traces, kind: type[Curious]) -> None:
    server = await world.serve(type(kind.__name__, (kind,), {"traces": traces}), tracing=all_of(traces))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create(kind.kind)

    await answer(room, "hello")
    await traces.until("think")

    (turn,), (think,) = traces.spans("holdfast.turn"), traces.spans("think")
    assert think.parent == turn.context


# The sample


async def test_only_the_share_that_was_asked_for_is_traced(world: World, traces: Traces) -> None:
    server = await world.serve(Hall, tracing=Tracing(tracer_provider=traces.provider, sample=0.0))
    session = await world.connect(server, messages=[Heard])
    room = await session.join_or_create("hall")

    await answer(room, "hello")

    assert traces.spans() == []


@pytest.mark.parametrize("sample", [-0.1, 1.1])
def test_a_share_that_is_none_is_refused(sample: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Tracing(sample=sample)


async def test_servers_in_one_process_may_share_their_settings(world: World, traces: Traces) -> None:
    tracing = all_of(traces)
    for _ in range(2):
        server = await world.serve(Hall, tracing=tracing)
        session = await world.connect(server, messages=[Heard])
        await answer(await session.join_or_create("hall"), "hello")
    await traces.until("holdfast.send", times=2)

    assert len(traces.spans("holdfast.turn")) == 2


# OpenTelemetry itself


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_who_does_not_ask_for_traces_does_not_import_opentelemetry() -> None:
    code = "import sys, holdfast.cli.main; print(any(name.startswith('opentelemetry') for name in sys.modules))"

    assert python(code) == "False"


def test_who_asks_for_traces_without_opentelemetry_is_told_what_to_install() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
try:
    import holdfast.observability.tracing
except ModuleNotFoundError as error:
    print(error)
"""

    assert python(code) == "traces need OpenTelemetry: pip install holdfast[telemetry]"
