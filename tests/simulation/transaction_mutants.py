"""Planted bugs of transactional rooms, where a turn that fails leaves something behind, and of recordings."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from holdfast.core.transaction import Transaction
from holdfast.server.rooms import recorder as recorder_module
from holdfast.server.rooms.transactions import _Before
from holdfast.server.rooms.turn_buffer import TurnBuffer
from tests.simulation.planting import mutant, patched


@mutant
def what_a_failed_turn_has_said_is_sent() -> Iterator[None]:
    with patched(TurnBuffer, undo=lambda _: None):
        yield


@mutant
def a_failed_turn_leaves_the_state_as_it_made_it() -> Iterator[None]:
    with patched(_Before, restore=lambda _: None):
        yield


@mutant
def a_failed_turn_leaves_the_dice_as_they_fell() -> Iterator[None]:
    def restore(before: _Before) -> None:
        before._random = before._context.random.getstate()
        right(before)

    right = _Before.restore
    with patched(_Before, restore=restore):
        yield


@mutant
def what_waited_for_the_success_of_a_turn_is_done_when_it_fails() -> Iterator[None]:
    def close(turn: Transaction, *, is_undone: bool) -> Any:
        held = turn._held
        acts = right(turn, is_undone=is_undone)
        return acts + held if is_undone else acts

    right = Transaction.close
    with patched(Transaction, close=close):
        yield


@mutant
def what_a_failed_turn_has_set_is_not_taken_back() -> Iterator[None]:
    def close(turn: Transaction, *, is_undone: bool) -> Any:
        acts = right(turn, is_undone=is_undone)
        return [] if is_undone else acts

    right = Transaction.close
    with patched(Transaction, close=close):
        yield


@mutant
def a_recording_does_not_know_the_dice() -> Iterator[None]:
    def engine_view(*args: Any) -> Any:
        view = right(*args)
        view.random = "0x1"
        return view

    right = vars(recorder_module)["engine_view"]
    with patched(recorder_module, engine_view=engine_view):
        yield
