"""`@on(Move)`: which method handles which message, and what a mistake is answered with."""

from types import NoneType
from typing import Any, ClassVar, Optional

import pytest

from holdfast.core.codec import Codec
from holdfast.core.codecs import CODECS
from holdfast.core.handlers import answers_of, handlers_of, on
from holdfast.core.messages import Message, MessageRefused, SeatLeft
from holdfast.core.room import Room, room_handlers
from holdfast.core.session import Player
from tests.cases import every_case
from tests.core import postponed
from tests.core.samples import Hero


class Move(Message):
    x: float = 0.0


class Jump(Message):
    height: int


class Arena(Room[Hero]):
    @on(Move)
    def moved(self, player: Player[Hero], move: Move) -> str:
        return f"arena {move.x}"

    @on(Jump)
    async def jumped(self, player: Player[Hero], jump: Jump) -> None: ...

    def helper(self) -> None: ...


def test_marked_methods_are_found_by_the_wire_name_of_their_message() -> None:
    assert {name: handler.method for name, handler in room_handlers(Arena).items()} == {
        "move": Arena.moved,
        "jump": Arena.jumped,
    }
    assert room_handlers(Arena)["move"].message_type is Move


def test_a_marked_method_is_still_the_method() -> None:
    def moved(self: Any, player: Any, move: Move) -> None: ...

    assert on(Move)(moved) is moved


def test_a_room_without_handlers_has_none() -> None:
    class Quiet(Room[Hero]):
        pass

    assert room_handlers(Quiet) == {}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_handler_decodes_its_message_from_every_encoding_of_the_wire(codec: Codec) -> None:
    body = codec.encode(Jump(3))

    assert room_handlers(Arena)["jump"].decoders[codec].decode(body) == Jump(3)


# The type of the annotation


def test_without_a_type_it_is_that_of_the_annotation() -> None:
    class Plain(Room[Hero]):
        @on
        def moved(self, player: Player[Hero], move: Move) -> None: ...

        @on()
        async def jumped(self, player: Player[Hero], jump: Jump) -> None: ...

    class Court(Room[Hero]):
        @on(role="gm")
        def moved(self, player: Player[Hero], move: Move) -> None: ...

    assert {name: handler.message_type for name, handler in room_handlers(Plain).items()} == {
        "move": Move,
        "jump": Jump,
    }
    assert room_handlers(Court)["move"].role == "gm"


def test_an_annotation_may_be_text_and_name_what_only_type_checkers_import_beside_it() -> None:
    class Quoted(Room[Hero]):
        class Duck(Message):
            pass

        @on
        def moved(self, player: "NeverImported", move: "Move") -> "NeverImported": ...  # type: ignore[name-defined]  # noqa: F821 - as it says

        @on
        def ducked(self, player: Player[Hero], duck: "Duck") -> None: ...

    assert room_handlers(Quoted)["move"].message_type is Move
    assert room_handlers(Quoted)["duck"].message_type is Quoted.Duck
    assert {name: handler.message_type for name, handler in room_handlers(postponed.Postponed).items()} == {
        "step": postponed.Step,
        "hop": postponed.Hop,
    }


def test_a_method_that_overrides_a_handler_need_not_repeat_the_annotation() -> None:
    class Base(Room[Hero]):
        @on
        def moved(self, player: Player[Hero], move: Move) -> None: ...

    class Derived(Base):
        def moved(self, player: Any, move: Any) -> None: ...

    assert room_handlers(Derived)["move"].method is Derived.moved


def _unannotated(self: Any, player: Any, move) -> None: ...  # type: ignore[no-untyped-def]


def _too_short(self: Any, player: Any) -> None: ...


def _unknown(self: Any, player: Any, move: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - as it says


def _plain(self: Any, player: Any, move: int) -> None: ...


def _either(self: Any, player: Any, move: Move | Jump) -> None: ...


def _reserved(self: Any, player: Any, left: SeatLeft) -> None: ...


@every_case(
    "method, error",
    [
        (_unannotated, r"Arena.moved .*does not say which message it takes: .*or write @on\(Move\)"),
        (_too_short, r"Arena.moved .*does not say which message it takes"),
        (_unknown, r"Arena.moved .*annotation 'Nowhere' cannot be resolved \(name 'Nowhere' is not defined\)"),
        (_plain, r"Arena.moved: @on takes a Message class, as in @on\(Move\); got <class 'int'>"),
        (_either, r"Arena.moved: @on takes a Message class"),
        (_reserved, r"Arena.moved: SeatLeft is Holdfast's own message"),
    ],
)
def test_an_annotation_that_names_no_message_is_refused_when_the_class_is_made(method: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        type("Arena", (Room,), {"moved": on(method)})


# Answers


class Moved(Message):
    x: float


class Stopped(Message):
    pass


def _one(self: Any, player: Any, move: Move) -> Moved:
    return Moved(1.0)


async def _async(self: Any, player: Any, move: Move) -> Moved:
    return Moved(1.0)


def _perhaps(self: Any, player: Any, move: Move) -> Moved | None: ...


def _optional(self: Any, player: Any, move: Move) -> Optional[Moved]: ...  # noqa: UP045 - people write this


def _either_one(self: Any, player: Any, move: Move) -> "Moved | Stopped":
    return Stopped()


def _nothing(self: Any, player: Any, move: Move) -> None: ...


def _anything(self: Any, player: Any, move: Move) -> Any: ...


def _some_message(self: Any, player: Any, move: Move) -> Message:
    return Stopped()


def _number(self: Any, player: Any, move: Move) -> int:
    return 1


def _number_or_message(self: Any, player: Any, move: Move) -> int | Moved:
    return 1


def _unresolved(self: Any, player: Any, move: Move) -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821 - as it says


def _unsaid(self, player, move: Move): ...  # type: ignore[no-untyped-def]


@every_case(
    "method, answers",
    [
        (_one, {Moved}),
        (_async, {Moved}),
        (_perhaps, {Moved, NoneType}),
        (_optional, {Moved, NoneType}),
        (_either_one, {Moved, Stopped}),
        *((method, set()) for method in (_nothing, _anything, _some_message, _number, _number_or_message)),
        *((method, set()) for method in (_unresolved, _unsaid)),
    ],
)
def test_a_handler_answers_with_what_its_annotation_returns(method: Any, answers: set[type]) -> None:
    room: Any = type("Arena", (Room,), {"moved": on(Move)(method)})

    assert set(answers_of(room, room_handlers(room)["move"])) == answers


# Inheritance


def test_a_subclass_inherits_the_handlers_and_adds_its_own() -> None:
    class Duck(Message):
        pass

    class BigArena(Arena):
        @on(Duck)
        def ducked(self, player: Player[Hero], duck: Duck) -> None: ...

    assert set(room_handlers(BigArena)) == {"move", "jump", "duck"}
    assert set(room_handlers(Arena)) == {"move", "jump"}


def test_a_method_of_the_same_name_takes_the_place_of_its_bases() -> None:
    class SlowArena(Arena):
        @on(Move)
        def moved(self, player: Player[Hero], move: Move) -> str:
            return "slow"

    assert room_handlers(SlowArena)["move"].method is SlowArena.moved
    assert room_handlers(Arena)["move"].method is Arena.moved


def test_handlers_may_come_from_a_mixin() -> None:
    class Jumping:
        @on(Jump)
        def jumped(self, player: Player[Hero], jump: Jump) -> None: ...

    class Circus(Jumping, Room[Hero]):
        pass

    assert room_handlers(Circus)["jump"].method is Circus.jumped


# Mistakes


@every_case("mistake", [None, "move", 3, Move(1.0), int, Hero, [Move]], ids=repr)
def test_on_takes_a_message_class_and_nothing_else(mistake: Any) -> None:
    with pytest.raises(TypeError, match=r"@on takes a Message class, as in @on\(Move\)"):
        on(mistake)


@pytest.mark.parametrize("reserved", [MessageRefused, SeatLeft])
def test_holdfasts_own_messages_cannot_be_handled(reserved: type[Message]) -> None:
    with pytest.raises(TypeError, match=reserved.__name__):
        on(reserved)


def test_a_game_cannot_take_a_reserved_name_either() -> None:
    class Sneaky(Message):
        wire_name: ClassVar[str] = "holdfast.sneaky"

    with pytest.raises(TypeError, match="Sneaky"):
        on(Sneaky)


def test_two_handlers_for_one_message_are_refused_and_both_are_named() -> None:
    with pytest.raises(TypeError, match="Confused handles 'move' twice") as refused:

        class Confused(Room[Hero]):
            @on(Move)
            def moved(self, player: Player[Hero], move: Move) -> None: ...

            @on(Move)
            def also_moved(self, player: Player[Hero], move: Move) -> None: ...

    assert "moved" in str(refused.value)
    assert "also_moved" in str(refused.value)


def test_a_subclass_cannot_handle_a_message_beside_its_base() -> None:
    with pytest.raises(TypeError, match="'move' twice"):

        class Confused(Arena):
            @on(Move)
            def walked(self, player: Player[Hero], move: Move) -> None: ...


def test_two_messages_of_one_wire_name_are_refused() -> None:
    class Step(Message):
        wire_name: ClassVar[str] = "move"

    class Confused:
        @on(Move)
        def moved(self, player: Player[Hero], move: Move) -> None: ...

        @on(Step)
        def stepped(self, player: Player[Hero], step: Step) -> None: ...

    with pytest.raises(TypeError, match="'move' twice"):
        handlers_of(Confused)


def test_one_method_for_two_messages_is_refused_and_not_half_registered() -> None:
    with pytest.raises(TypeError, match=r"moved .*one method per message"):

        class Confused(Room[Hero]):
            @on(Jump)
            @on(Move)
            def moved(self, player: Player[Hero], message: Message) -> None: ...


def test_a_method_that_overrides_a_handler_takes_its_place_without_a_mark() -> None:
    class Walk(Message):
        steps: int

    class Base(Room[Hero]):
        @on(Walk)
        def walked(self, player: Player[Hero], walk: Walk) -> str:
            return "base"

    class Derived(Base):
        def walked(self, player: Player[Hero], walk: Walk) -> str:
            return "derived"

    assert room_handlers(Derived)["walk"].method is Derived.walked
    assert room_handlers(Base)["walk"].method is Base.walked


# Roles


def test_a_handler_says_which_role_its_message_needs() -> None:
    class Court(Room[Hero]):
        @on(Move)
        def moved(self, player: Player[Hero], move: Move) -> None: ...

        @on(Jump, role="gm")
        def jumped(self, player: Player[Hero], jump: Jump) -> None: ...

    assert {name: handler.role for name, handler in room_handlers(Court).items()} == {"move": "", "jump": "gm"}


def test_a_subclass_that_overrides_a_handler_keeps_its_role() -> None:
    class Court(Room[Hero]):
        @on(Jump, role="gm")
        def jumped(self, player: Player[Hero], jump: Jump) -> None: ...

    class HighCourt(Court):
        def jumped(self, player: Player[Hero], jump: Jump) -> None: ...

    class LowCourt(Court):
        @on(Jump)
        def jumped(self, player: Player[Hero], jump: Jump) -> None: ...

    assert room_handlers(HighCourt)["jump"].role == "gm"
    assert room_handlers(LowCourt)["jump"].role == ""


@pytest.mark.parametrize("role", ["", 5, ["gm"]])
def test_what_cannot_be_a_role_is_refused(role: Any) -> None:
    with pytest.raises(TypeError, match='as in @on\\(Move, role="gm"\\); got'):
        on(Move, role=role)
