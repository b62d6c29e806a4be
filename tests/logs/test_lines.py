"""A log line: a sentence and fields, carried by the standard library."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.logs import LogRows, get_logger
from holdfast.logs.lines import struck_out
from tests.cases import every_case
from tests.log_lines import line_of

log = get_logger("holdfast.test")
ROOT = Path(__file__).parents[2]


class Lines(logging.Handler):
    """A handler as an application has one: it knows nothing of us."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(filename)s:%(funcName)s %(levelname)s %(name)s %(message)s"))
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@pytest.fixture
def lines() -> "Lines":
    return Lines()


@pytest.fixture(autouse=True)
def _listening(lines: Lines, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.INFO, logger="holdfast.test")
    logger = logging.getLogger("holdfast.test")
    logger.addHandler(lines)
    yield
    logger.removeHandler(lines)


def test_an_application_with_plain_logging_gets_our_lines_with_who_said_them(lines: Lines) -> None:
    log.warning("token reused", session="s1", peer="203.0.113.7:5", count=3)
    try:
        raise LookupError("nobody")
    except LookupError:
        log.exception("it failed")

    where = "test_lines.py:test_an_application_with_plain_logging_gets_our_lines_with_who_said_them"
    warning, failure = lines.texts
    assert warning == f"{where} WARNING holdfast.test token reused session=s1 peer=203.0.113.7:5 count=3"
    assert failure.startswith(f"{where} ERROR holdfast.test it failed\nTraceback")
    assert failure.endswith("LookupError: nobody")


def test_the_sentence_and_the_fields_are_in_the_record_too(caplog: pytest.LogCaptureFixture) -> None:
    # Names that a record has of its own must not be in the way.
    log.info("a room was made", name="hall", module="m", args=(1,), message="x")

    (record,) = caplog.records
    assert line_of(record) == ("a room was made", {"name": "hall", "module": "m", "args": (1,), "message": "x"})


def test_what_nobody_listens_to_is_not_even_made() -> None:
    class Unsaid:
        def __str__(self) -> str:
            raise AssertionError("it was made")

    log.debug("quiet", what=Unsaid())


@pytest.mark.parametrize(
    "name",
    ["password", "new_password", "token", "accessToken", "credential", "api_key", "apiKey", "Authorization", "ticket"],
)
def test_a_field_that_is_called_like_a_secret_is_not_shown(lines: Lines, name: str) -> None:
    log.warning("a mistake of ours", **{name: "hunter2"})

    assert f"{name}=***" in lines.texts[0]
    assert "hunter2" not in lines.texts[0]


@pytest.mark.parametrize("secret", ["hunter22", 'it\'s "quoted"', "ann:hunter22", "head.body-of-it.signature"])
def test_a_secret_is_struck_out_of_a_traceback(lines: Lines, caplog: pytest.LogCaptureFixture, secret: str) -> None:
    def prove(credential: str) -> None:
        kind, _, rest = credential.partition(":" if ":" in credential else ".")
        try:
            int(credential)
        except ValueError as error:
            raise LookupError(f"nobody has {rest or kind!r}") from error

    try:
        prove(secret)
    except LookupError as error:
        log.error("internal error", exc_info=error, hide=(secret,))  # noqa: TRY400 - the error is told

    (text,) = lines.texts
    assert "LookupError: nobody has" in text
    assert "ValueError: invalid literal" in text
    assert "prove(" in text, "where it happened is shown"
    rest = secret.partition(":")[2] or secret.partition(".")[2] or secret
    assert all(each not in text for each in (secret, repr(secret)[1:-1], rest))
    # Nor does a handler get the frames, with the secret in their variables.
    assert caplog.records[0].exc_info is None


@every_case(
    ("secrets", "text", "struck"),
    [
        # A password with dots in it, whole and by its parts.
        (["ann:a.bcdef.gh"], "no 'a.bcdef.gh' of 'ann:a.bcdef.gh', nor bcdef", "no '***' of '***', nor ***"),
        (["ann:to:be.or.not"], "to:be.or.not", "***"),
        (["ann:x.y.z"], "LookupError: x.y.z", "LookupError: ***"),
        # One that is too short to be told from other words would wipe the log.
        (["e"], "LookupError: the end", "LookupError: the end"),
        (["ann:e"], "LookupError: the end of ann:e", "LookupError: the end of ***"),
        (["", "ann:", ":"], "LookupError: the end", "LookupError: the end"),
        # One that is a part of another.
        (["hunter", "ann:hunter22"], "hunter22 and hunter", "*** and ***"),
    ],
)
def test_what_is_struck_out_is_the_whole_of_a_secret_and_nothing_else(
    secrets: list[str], text: str, struck: str
) -> None:
    assert struck_out(text, secrets) == struck


def test_a_player_cannot_make_a_field_a_line_or_a_color(lines: Lines) -> None:
    log.warning("hello", player="ann session=s2", why="x\nERROR holdfast forged", client="\x1b[31mred", empty="")

    (text,) = lines.texts
    assert text.endswith(r"hello player='ann session=s2' why='x\nERROR holdfast forged' client='\x1b[31mred' empty=''")


def test_a_field_of_many_lines_comes_below_the_others(lines: Lines) -> None:
    log.warning("packet", rows=LogRows(["one", "two"]), length=2)

    assert lines.texts[0].endswith("packet length=2\none\ntwo")


def test_percent_signs_are_just_that(lines: Lines) -> None:
    log.warning("100% of them", why="%s %d")

    assert lines.texts[0].endswith("100% of them why='%s %d'")


def test_importing_us_configures_nothing() -> None:
    code = """
import logging
import holdfast, holdfast.http.api
assert logging.root.handlers == [] and logging.root.level == logging.WARNING
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=ROOT)
