"""Lineages: which history of a session a client knows, as far as its hello shows it."""

from holdfast.core.tokens import LINEAGE_BYTES, Lineage
from holdfast.schemas.frames import LINEAGE_CHARS_MAX, Position, Resume
from holdfast.schemas.session import Fork, Reached
from tests.cases import every_case

EPOCH = 20


def resume(lineage: str, *, received: int = 0, channel: int = 1, requests: int = 0) -> Resume:
    return Resume("session", "token", [Position(channel, 1, received)], lineage, requests)


def forked(*names: str) -> Lineage:
    """The history forked in each of these lineages, the last time when the client had 10 messages."""
    lineage = Lineage(4)
    for number, name in enumerate(names, start=11 - len(names)):
        lineage.name = name
        lineage.fork(Fork(name, 1, 5, [Reached(1, 1, number, 0)]))
    return lineage


@every_case("lineage", ["", "q83vASNF", "13.q83vASNF", "14.q83vASNF", ".", "..", "x.q83vASNF", "-15.q83vASNF", "é.é"])
def test_a_lineage_that_is_not_known_and_not_newer_shows_no_rollback(lineage: str) -> None:
    assert not forked("12.AAAAAAAA").is_exceeded_by(resume(lineage, received=10, requests=5), EPOCH)


@every_case("lineage", ["15.q83vASNF", "ffffff.q83vASNF"])
def test_a_lineage_from_a_later_epoch_shows_a_rollback(lineage: str) -> None:
    assert forked("12.AAAAAAAA").is_exceeded_by(resume(lineage), EPOCH)


@every_case("lineage", ["11.q83vASNF", "12.AAAAAAAA"])
@every_case("beyond", [resume("", received=11), resume("", channel=2), resume("", requests=6)])
def test_numbers_beyond_the_last_fork_show_a_rollback_in_any_lineage(lineage: str, beyond: Resume) -> None:
    hello = Resume("session", "token", beyond.positions, lineage, beyond.requests)

    assert forked("12.AAAAAAAA").is_exceeded_by(hello, EPOCH)


def test_a_session_that_was_not_restored_shows_no_rollback() -> None:
    lineage = Lineage(4)

    assert not lineage.is_exceeded_by(resume("ff.q83vASNF", received=99), EPOCH)


def test_a_present_lineage_shows_no_rollback() -> None:
    lineage = forked("12.AAAAAAAA")
    lineage.begin(EPOCH, bytes(LINEAGE_BYTES), presented="12.AAAAAAAA")

    assert not lineage.is_exceeded_by(resume(lineage.name, received=99), EPOCH)


def test_the_name_of_a_lineage_fits_into_a_hello_however_often_its_client_has_returned() -> None:
    lineage = forked("")

    lineage.begin(16**7 - 1, bytes(LINEAGE_BYTES), presented="")

    assert len(lineage.name) <= LINEAGE_CHARS_MAX
