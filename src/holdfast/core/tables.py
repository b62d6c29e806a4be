"""State machines as tables: a (state, event) pair that is not in the table is refused and changes nothing."""

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from holdfast.core.errors import HoldfastError


class TableEnum(Enum):
    """The base of states and events."""

    # Enum hashes names, in Python; tables are looked up at every step of a connection.
    __hash__ = object.__hash__


S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class IllegalTransition(HoldfastError):
    """The table has no row for this event in this state."""

    def __init__(self, machine: str, state: str, event: str) -> None:
        super().__init__(f"a {machine} that is {state} cannot be {event}")
        self.machine = machine
        self.state = state
        self.event = event


class Table(Generic[S, E]):
    """The transitions of one state machine, and their diagram for the docs."""

    def __init__(self, name: str, start: S, rows: Mapping[S, Mapping[E, S]]) -> None:
        self.name = name
        self.start = start
        self.rows = rows

    def after(self, state: S, event: E) -> S:
        """The state that follows, or `IllegalTransition`."""
        following = self.rows[state].get(event)
        if following is None:
            raise IllegalTransition(self.name, str(state.value), str(event.value))
        return following

    def diagram(self) -> str:
        """The table as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start.value}"]
        for state, row in self.rows.items():
            lines += [f"    {state.value} --> {following.value}: {event.value}" for event, following in row.items()]
            if not row:
                lines.append(f"    {state.value} --> [*]")
        return "\n".join(lines)
