"""What `holdfast serve` writes: for people, and for programs."""

import io
import json
import logging
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.logs import LogRows, get_logger
from holdfast.logs.output import PACKETS, ConsoleFormatter, Format, JsonFormatter, WithoutAddresses, set_up

log = get_logger("holdfast.test")
NAMES = ("holdfast.test", "somebody.else")


class Written:
    """What was written to a stream in one of the formats."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(formatter)
        for name in NAMES:
            logging.getLogger(name).addHandler(self.handler)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def close(self) -> None:
        for name in NAMES:
            logging.getLogger(name).removeHandler(self.handler)


@pytest.fixture
def console() -> Iterator[Written]:
    written = Written(ConsoleFormatter())
    yield written
    written.close()


@pytest.fixture
def programs() -> Iterator[Written]:
    written = Written(JsonFormatter())
    yield written
    written.close()


def fail(password: str) -> None:
    raise ValueError(f"a password of {len(password)} letters")


def log_failure() -> None:
    try:
        fail("hunter2 of the locals")
    except ValueError:
        log.exception("it failed", room="r1")


def test_people_read_time_level_logger_sentence_and_fields(console: Written) -> None:
    log.warning("session.dropped", session="s1", grace_s=30.0)

    date, time, rest = console.text.split(" ", 2)
    datetime.fromisoformat(f"{date} {time}")
    assert rest == "WARNING holdfast.test: session.dropped session=s1 grace_s=30.0\n"


def test_only_the_head_of_a_line_stands_at_the_left(console: Written) -> None:
    log_failure()
    log.warning("packet", rows=LogRows(["one", "two"]))
    logging.getLogger("somebody.else").warning("forged\n2026-01-01 ERROR holdfast: nothing")

    heads = [line for line in console.text.splitlines() if not line.startswith("    ")]
    assert len(heads) == 3
    assert all(" holdfast.test: " in head or " somebody.else: forged" in head for head in heads)
    assert "    ValueError: a password of 21 letters" in console.text
    assert "    one\n    two\n" in console.text


def test_nothing_steers_the_terminal(console: Written) -> None:
    logging.getLogger("somebody.else").warning("\x1b[2J\x07 \u202e ünïcode\tok")

    assert console.text.endswith("\\x1b[2J\\x07 \\u202e ünïcode\tok\n")


def test_programs_read_one_object_a_line(programs: Written) -> None:
    log.warning("session.dropped", session="s1", grace_s=30.0, player="ann\nx \u2028 ü")
    logging.getLogger("somebody.else").warning("%d lines\nin one", 2)

    ours, foreign = programs.objects
    assert datetime.fromisoformat(ours.pop("time")).utcoffset() == timedelta(0)
    assert ours == {
        "level": "warning",
        "logger": "holdfast.test",
        "event": "session.dropped",
        "session": "s1",
        "grace_s": 30.0,
        "player": "ann\nx \u2028 ü",
    }
    assert (foreign["logger"], foreign["event"]) == ("somebody.else", "2 lines\nin one")


def test_an_exception_is_text_in_its_object_and_shows_no_variables(programs: Written, console: Written) -> None:
    log_failure()

    (failure,) = programs.objects
    assert failure["exception"].startswith("Traceback (most recent call last):\n")
    assert failure["exception"].endswith("\nValueError: a password of 21 letters")
    assert failure["room"] == "r1"
    # The line of source that called is shown; the variable it had is not.
    assert "hunter2" not in programs.text.replace('fail(\\"hunter2 of the locals\\")', "")
    assert "hunter2" not in console.text.replace('fail("hunter2 of the locals")', "")


def test_an_exception_without_its_secrets_is_text_too(programs: Written) -> None:
    try:
        raise ValueError("nobody is called hunter2")
    except ValueError as error:
        log.error("internal error", exc_info=error, hide=("hunter2",))  # noqa: TRY400 - the error is told

    (failure,) = programs.objects
    assert failure["exception"].endswith("\nValueError: nobody is called ***")


def test_a_field_named_exception_stays_as_it_is(programs: Written) -> None:
    log.warning("odd", exception="ValueError")

    (line,) = programs.objects
    assert line["exception"] == "ValueError"


def test_fields_do_not_take_the_place_of_the_line_s_own(programs: Written) -> None:
    log.warning("odd", time=1, logger="x")

    (line,) = programs.objects
    assert (line["time_"], line["logger_"], line["logger"]) == (1, "x", "holdfast.test")


def test_whatever_a_field_holds_it_can_be_written(programs: Written) -> None:
    log.warning("odd", what={1, 2}, error=ValueError("why"), half="\ud800", raw=b"\xff")

    (line,) = programs.objects
    assert (line["what"], line["error"], line["half"]) == ("{1, 2}", "why", "\ud800")


def test_addresses_can_be_left_out(console: Written, programs: Written) -> None:
    for written in (console, programs):
        written.handler.addFilter(WithoutAddresses())

    log.warning("sign_in.failed", address="203.0.113.7", scheme="password")
    log.warning("session.opened", peer="203.0.113.7:51234", session="s1")

    assert "203.0.113" not in console.text + programs.text
    assert "sign_in.failed scheme=password\n" in console.text
    assert programs.objects[1]["session"] == "s1"


@pytest.mark.parametrize("form", ["console", "json"])
def test_packets_go_to_a_file_that_only_its_owner_reads(tmp_path: Path, form: Format) -> None:
    file = tmp_path / "packets.log"
    packets = logging.getLogger(PACKETS)

    set_up(logging.WARNING, form, packet_file=file)
    try:
        get_logger(PACKETS).info("packet", session="s1", dump=LogRows(["0000  90  |.|"]))
        written = file.read_text("utf-8")
        propagates = packets.propagate
    finally:
        for handler in packets.handlers:
            handler.close()
        packets.handlers, packets.propagate = [], True

    assert not propagates
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if form == "json":
        assert json.loads(written)["dump"] == ["0000  90  |.|"]
    else:
        assert "packet session=s1\n    0000  90  |.|\n" in written
