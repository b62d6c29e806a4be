"""No line that a stranger can cause is written without a limit: every event, and every logger of ours and others'."""

import ast
import asyncio
import logging
from functools import cache
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from msgspec.structs import fields as fields_of

import holdfast
from holdfast import Limits
from holdfast.observability.log_lines import LEVELS, LIMITED_BY, LIMITED_LOGGERS, LineLimit, LineLimitFilter
from holdfast.schemas import events
from holdfast.schemas.events import Event, RoomEvent, SessionEvent
from holdfast.testing import MemoryServer
from tests.log_lines import line_of
from tests.server.durability.bench import in_virtual_time
from tests.server.world import chat

TIMES = 1000
LIMITS = Limits(log_lines_per_s=3, log_events_per_s=7)
BASES = {Event, RoomEvent, SessionEvent}
EVENTS = [
    each for each in vars(events).values() if isinstance(each, type) and issubclass(each, Event) and each not in BASES
]
LEFT_OUT = "more lines like this were left out"
# These have limits of their own: the lines of events, and the packet log, which an operator has to switch on. Clients
# write theirs themselves, and the supervisor of workers when one of them ends, which it delays.
OTHERWISE_LIMITED = {"holdfast.events", "holdfast.packets", "holdfast.client", "holdfast.library", "holdfast.workers"}


_hints_of = cache(get_type_hints)


def made_up(event: type[Event], number: int) -> Event:
    """One such event, about another session, player, room and address each time."""
    hints = _hints_of(event)
    values: dict[type, Any] = {str: f"name{number}", float: 1.0, int: 1, bool: False}
    values_by_field: dict[str, Any] = {
        field.name: values.get(get_origin(hints[field.name]) or hints[field.name], [])
        for field in fields_of(event)
        if field.name != "at"
    }
    # What it is limited by is one of a few names that are ours.
    values_by_field |= {name: "same" for name in LIMITED_BY.values() if name in values_by_field}
    return event(**values_by_field)


@in_virtual_time
async def test_a_thousand_of_any_event_are_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with MemoryServer([chat()], limits=LIMITS) as server:
        for event in EVENTS:
            await asyncio.sleep(1.5)
            caplog.clear()
            for number in range(TIMES):
                server.parts.context.publish(made_up(event, number))
            await asyncio.sleep(1.5)
            lines = [line_of(record) for record in caplog.records if record.name == "holdfast.events"]

            name = str(event.__struct_config__.tag)
            written = [fields for sentence, fields in lines if sentence == name]
            left_out = [fields["lines"] for sentence, fields in lines if sentence == LEFT_OUT]
            is_warning = LEVELS.get(event, logging.INFO) >= logging.WARNING or name == "node.health"
            assert len(written) == (3 if is_warning else 7), name
            assert len(written) + sum(left_out) == TIMES, name
            assert len(left_out) == 1, name


@in_virtual_time
async def test_a_thousand_lines_of_any_logger_that_unauthenticated_clients_reach_are_a_few_and_a_number(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MemoryServer([chat()], limits=LIMITS):
        for name in LIMITED_LOGGERS:
            # A uvicorn that another test has started in this process keeps its lines to itself, or writes none.
            caplog.set_level(logging.WARNING, logger=name)
            monkeypatch.setattr(logging.getLogger(name.partition(".")[0]), "propagate", True)
            monkeypatch.setattr(logging.getLogger(name), "propagate", True)
            monkeypatch.setattr(logging.getLogger(name), "disabled", False)
            caplog.clear()
            for number in range(TIMES):
                logging.getLogger(name).warning("a stranger's number %d", number)
            await asyncio.sleep(1.5)
            lines = [record for record in caplog.records if record.name == name]
            told = [line_of(record)[1] for record in caplog.records if record.name == "holdfast.events"]

            assert len(lines) == 3, name
            assert told == [{"kind": f"{name}: WARNING", "lines": TIMES - 3}]


@in_virtual_time
async def test_a_loop_that_complains_of_every_connection_writes_a_few_tracebacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    async with MemoryServer([chat()], limits=LIMITS):
        for number in range(TIMES):
            error = UnicodeDecodeError("ascii", b"\xff", 0, 1, str(number))
            loop.call_exception_handler({"message": f"Fatal error of {number}", "exception": error})
        await asyncio.sleep(1.5)
        told = [line_of(record)[1] for record in caplog.records if record.name == "holdfast.events"]

    assert caplog.text.count("Fatal error of") == 3
    assert told == [{"kind": "asyncio: UnicodeDecodeError", "lines": TIMES - 3}]


@in_virtual_time
async def test_one_failure_does_not_drown_another(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryServer([chat()], limits=LIMITS, allow_errors=ValueError) as server:
        for _ in range(TIMES):
            server.parts.faults.report("here", ValueError("the same again"))
        server.parts.faults.report("there", ValueError("another"))

    assert caplog.text.count("the same again") >= 3
    assert caplog.text.count("ValueError: another") == 1


@in_virtual_time
async def test_loggers_are_left_alone_once_the_last_server_has_stopped(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("asyncio")
    async with MemoryServer([chat()], limits=LIMITS), MemoryServer([chat()], limits=LIMITS):
        pass

    for _ in range(20):
        logger.warning("nobody serves strangers any more")

    assert len(caplog.records) == 20


def test_a_server_that_was_abandoned_guards_nothing(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    closed = LineLimitFilter(LineLimit(loop, 1, lambda *_: None))
    kept = LineLimit(loop, 1, lambda *_: None)
    guards = [closed, LineLimitFilter(kept)]
    for guard in guards:
        guard.start()
    loop.close()

    for _ in range(20):
        logging.getLogger("asyncio").warning("there is nobody to guard")

    assert len(caplog.records) == 20
    assert not set(guards) & set(logging.getLogger("asyncio").filters)


def test_every_logger_of_ours_is_limited_in_one_way_or_another() -> None:
    package = Path(holdfast.__file__).parent
    names = set()
    for file in package.rglob("*.py"):
        module = ".".join(file.relative_to(package.parent).with_suffix("").parts)
        source = file.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if "get_logger" in source else ():
            match node:
                case ast.Call(func=ast.Name(id="get_logger"), args=[ast.Constant(value=str(name))]):
                    names.add(name)
                case ast.Call(func=ast.Name(id="get_logger"), args=[ast.Name(id="__name__")]):
                    names.add(module)
                case _:
                    pass

    assert names - OTHERWISE_LIMITED <= set(LIMITED_LOGGERS)
