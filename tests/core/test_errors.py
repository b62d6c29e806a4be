import re

import holdfast
from holdfast.core import errors
from holdfast.core.errors import (
    AlreadySeated,
    AlreadySpectating,
    Conflict,
    Duplicate,
    Expired,
    Failed,
    HoldfastError,
    Invalid,
    NameNotAllowed,
    NameTaken,
    NotAllowed,
    NotFound,
    NotSeated,
    OtherVersion,
    ProtocolError,
    Refused,
    RoomFull,
    RoomLocked,
    SessionEnded,
    Throttled,
    WrongPassword,
    refusal,
)
from holdfast.core.reasons import Reason
from tests.cases import every_case

# The stable codes: clients of every language compare them.
CODES: dict[str, type[Refused]] = {
    "refused": Refused,
    "not_found": NotFound,
    "room_full": RoomFull,
    "room_locked": RoomLocked,
    "wrong_password": WrongPassword,
    "name_taken": NameTaken,
    "name_not_allowed": NameNotAllowed,
    "conflict": Conflict,
    "expired": Expired,
    "not_allowed": NotAllowed,
    "already_seated": AlreadySeated,
    "already_spectating": AlreadySpectating,
    "duplicate": Duplicate,
    "not_seated": NotSeated,
    "other_version": OtherVersion,
    "invalid": Invalid,
    "throttled": Throttled,
    "failed": Failed,
}


def family(root: type[HoldfastError]) -> set[type[HoldfastError]]:
    """The class and all below it that Holdfast itself defines."""
    below = {kind for child in root.__subclasses__() for kind in family(child)}
    return {root, *(kind for kind in below if kind.__module__.startswith("holdfast."))}


def tree_drawn_in(text: str) -> dict[str, str]:
    """Each class in a tree of box-drawing lines, and the class it hangs from."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in text.splitlines():
        found = re.match(r"    ((?:│   |    )*)(├── |└── |)([A-Z]\w+)(\s|$)", line)
        if found is not None:
            depth = (len(found[1]) + len(found[2])) // 4
            del path[depth:]
            parents[found[3]] = path[-1] if path else ""
            path.append(found[3])
    return parents


@every_case(("code", "kind"), CODES.items())
def test_a_refusal_survives_the_wire_with_its_type_code_and_words(code: str, kind: type[Refused]) -> None:
    sent = kind("the room is full of eels")

    received = refusal(sent.code, str(sent))

    assert type(received) is kind
    assert received.code == code
    assert str(received) == "the room is full of eels"


def test_every_refusal_there_is_has_a_code_of_its_own() -> None:
    kinds = family(Refused)

    assert kinds == set(CODES.values())
    assert {kind.code for kind in kinds if issubclass(kind, Refused)} == set(CODES)


def test_a_code_from_the_future_is_a_plain_refusal() -> None:
    received = refusal("haunted", "the room is haunted")

    assert type(received) is Refused
    assert str(received) == "the room is haunted"


def test_a_refusal_without_words_says_its_code_in_words() -> None:
    assert str(RoomFull()) == "room full"


def test_a_game_that_catches_holdfast_error_catches_everything() -> None:
    everything = [*(kind("no") for kind in CODES.values()), ProtocolError("no"), SessionEnded("bye")]

    for error in everything:
        assert isinstance(error, HoldfastError)


def test_a_broken_protocol_carries_the_reason_to_close_with() -> None:
    assert ProtocolError("what?").reason is Reason.PROTOCOL
    assert ProtocolError("a gap", Reason.SEQUENCE).reason is Reason.SEQUENCE


def test_an_ended_session_says_why() -> None:
    assert str(SessionEnded("kicked", "no cheating")) == "the session ended: no cheating"
    assert str(SessionEnded("kicked")) == "the session ended: kicked"
    assert SessionEnded("kicked", "no cheating").reason == "kicked"


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    assert holdfast.HoldfastError is HoldfastError  # every part is imported, so every class is known
    real = {kind.__name__: "" if kind is HoldfastError else kind.__mro__[1].__name__ for kind in family(HoldfastError)}

    assert tree_drawn_in(errors.__doc__ or "") == real


def test_a_class_missing_from_the_tree_would_be_found() -> None:
    drawing = """
    HoldfastError
    ├── Refused              the rules say no
    │   └── NotFound         nothing there
    └── SessionEnded         over
    """

    assert tree_drawn_in(drawing) == {
        "HoldfastError": "",
        "Refused": "HoldfastError",
        "NotFound": "Refused",
        "SessionEnded": "HoldfastError",
    }
