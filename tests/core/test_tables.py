"""The state machines, walked pair by pair against tables written out from the specification."""

from enum import Enum
from typing import Any

import pytest

from holdfast.core.connection import CONNECTION_TABLE, ConnectionState, ConnectionStep
from holdfast.core.placement import PLACEMENT_TABLE, PlacementEvent, PlacementState
from holdfast.core.reasons import Reason
from holdfast.core.room_listing import ROOM_TABLE, RoomStatus, RoomStep
from holdfast.core.session import (
    SEAT_TABLE,
    SESSION_TABLE,
    SeatState,
    SeatStep,
    Session,
    SessionState,
    SessionStep,
    seat_of,
)
from holdfast.core.tables import IllegalTransition, Table
from tests.cases import every_case
from tests.core.samples import a_connection, a_player, a_session

# machine: {state: {event: the state that follows}}. A pair that is not here is refused.
SPECIFIED: dict[str, dict[str, dict[str, str]]] = {
    "connection": {
        "connecting": {
            "welcomed": "connected",
            "relayed": "relayed",
            "closed": "disconnecting",
            "lost": "disconnected",
        },
        "connected": {
            "seated": "in_game",
            "relayed": "relayed",
            "closed": "disconnecting",
            "lost": "disconnected",
        },
        "in_game": {
            "unseated": "connected",
            "relayed": "relayed",
            "closed": "disconnecting",
            "lost": "disconnected",
        },
        "relayed": {"closed": "disconnecting", "lost": "disconnected"},
        "disconnecting": {"lost": "disconnected"},
        "disconnected": {},
    },
    "session": {
        "preconnect": {"attached": "connected", "restored": "disconnected", "ended": "ended"},
        "connected": {"attached": "connected", "detached": "disconnected", "ended": "ended"},
        "disconnected": {"attached": "connected", "expired": "ended", "ended": "ended"},
        "ended": {},
    },
    "seat": {
        "reserved": {"taken": "taken", "freed": "freed", "expired": "expired"},
        "taken": {"dropped": "held", "freed": "freed"},
        "held": {"returned": "taken", "freed": "freed"},
        "freed": {},
        "expired": {},
    },
    "room": {
        "creating": {"activated": "active", "closed": "ending", "broken": "failed"},
        "active": {"closed": "ending", "broken": "failed"},
        "ending": {"destroyed": "ended", "broken": "failed"},
        "ended": {},
        "failed": {},
    },
    "placement": {
        "pending": {"placed": "fulfilled", "stopped": "cancelled", "expired": "timed_out", "broken": "failed"},
        "fulfilled": {},
        "cancelled": {},
        "timed_out": {},
        "failed": {},
    },
}
STARTS = {
    "connection": "connecting",
    "session": "preconnect",
    "seat": "reserved",
    "room": "creating",
    "placement": "pending",
}
ENDS = {
    "connection": {"disconnected"},
    "session": {"ended"},
    "seat": {"freed", "expired"},
    "room": {"ended", "failed"},
    "placement": {"fulfilled", "cancelled", "timed_out", "failed"},
}

MACHINES: list[tuple[Table[Any, Any], type[Enum], type[Enum]]] = [
    (CONNECTION_TABLE, ConnectionState, ConnectionStep),
    (SESSION_TABLE, SessionState, SessionStep),
    (SEAT_TABLE, SeatState, SeatStep),
    (ROOM_TABLE, RoomStatus, RoomStep),
    (PLACEMENT_TABLE, PlacementState, PlacementEvent),
]
TABLES = [pytest.param(table, id=table.name) for table, _, _ in MACHINES]
PAIRS = [(table, state, event) for table, states, events in MACHINES for state in states for event in events]
ILLEGAL = [
    (table, state, event)
    for table, states, events in MACHINES
    for state in states
    for event in events
    if event.value not in SPECIFIED[table.name][state.value]
]


def states_reachable(rows: dict[str, dict[str, str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        state = ahead.pop()
        if state not in reached:
            reached.add(state)
            ahead += rows[state].values()
    return reached


def tell(session: Session, event: SessionStep) -> None:
    match event:
        case SessionStep.ATTACHED:
            session.attach(a_connection("c-2"), now=3.0)
        case SessionStep.DETACHED:
            session.detach(now=3.0)
        case SessionStep.RESTORED:
            session.restored(now=3.0)
        case SessionStep.EXPIRED | SessionStep.ENDED:
            session.finish(event, Reason.GRACE_ENDED)


@every_case(("table", "state", "event"), PAIRS)
def test_every_pair_leads_where_the_specification_says_or_is_refused(
    table: Table[Any, Any], state: Enum, event: Enum
) -> None:
    expected = SPECIFIED[table.name][state.value].get(event.value)

    if expected is None:
        with pytest.raises(IllegalTransition):
            table.after(state, event)
    else:
        assert table.after(state, event).value == expected


@pytest.mark.parametrize(("table", "states", "events"), MACHINES, ids=STARTS)
def test_the_specification_names_exactly_the_states_and_events_there_are(
    table: Table[Any, Any], states: type[Enum], events: type[Enum]
) -> None:
    rows = SPECIFIED[table.name]

    assert [state.value for state in states] == list(rows)
    assert {event.value for event in events} == {event for row in rows.values() for event in row}


@pytest.mark.parametrize("table", TABLES)
def test_every_machine_starts_where_the_specification_says(table: Table[Any, Any]) -> None:
    assert table.start.value == STARTS[table.name]


@pytest.mark.parametrize("table", TABLES)
def test_nothing_follows_an_end_and_every_other_state_leads_on(table: Table[Any, Any]) -> None:
    silent = {state.value for state, row in table.rows.items() if not row}

    assert silent == ENDS[table.name]


@pytest.mark.parametrize("table", TABLES)
def test_every_state_can_be_reached(table: Table[Any, Any]) -> None:
    rows = {
        state.value: {event.value: following.value for event, following in row.items()}
        for state, row in table.rows.items()
    }

    assert states_reachable(rows, table.start.value) == set(SPECIFIED[table.name])


@pytest.mark.parametrize("table", TABLES)
def test_an_end_can_be_reached_from_every_state(table: Table[Any, Any]) -> None:
    rows = SPECIFIED[table.name]

    for state in rows:
        assert states_reachable(rows, state) & ENDS[table.name]


def test_a_refused_event_says_which_machine_was_in_which_state() -> None:
    with pytest.raises(IllegalTransition, match="a seat that is freed cannot be returned") as refused:
        SEAT_TABLE.after(SeatState.FREED, SeatStep.RETURNED)

    assert (refused.value.machine, refused.value.state, refused.value.event) == ("seat", "freed", "returned")


# Nothing changes: on the objects that use the tables.


@every_case(("state", "event"), [(state, event) for table, state, event in ILLEGAL if table is CONNECTION_TABLE])
def test_a_refused_event_leaves_the_connection_as_it_was(state: ConnectionState, event: ConnectionStep) -> None:
    connection = a_connection()
    connection.state = state

    with pytest.raises(IllegalTransition):
        connection.happened(event)

    assert connection.state is state


@every_case(("state", "event"), [(state, event) for table, state, event in ILLEGAL if table is SEAT_TABLE])
def test_a_refused_event_leaves_the_seat_as_it_was(state: SeatState, event: SeatStep) -> None:
    player = a_player()
    seat_of(player).state = state

    with pytest.raises(IllegalTransition):
        seat_of(player).happened(event)

    assert seat_of(player).state is state


@every_case(("state", "event"), [(state, event) for table, state, event in ILLEGAL if table is SESSION_TABLE])
def test_a_refused_event_leaves_the_session_as_it_was(state: SessionState, event: SessionStep) -> None:
    session = a_session()
    if state in (SessionState.CONNECTED, SessionState.DISCONNECTED):
        session.attach(a_connection(), now=1.0)
    if state is SessionState.DISCONNECTED:
        session.detach(now=2.0)
    if state is SessionState.ENDED:
        session.finish(SessionStep.ENDED, Reason.KICKED)
    before = (session.state, session.connection, session.epoch, session.expires_at, session.drops, session.end_reason)

    with pytest.raises(IllegalTransition):
        tell(session, event)

    after = (session.state, session.connection, session.epoch, session.expires_at, session.drops, session.end_reason)
    assert after == before


def test_a_connection_can_be_spoken_to_until_it_closes() -> None:
    open_in = {}
    for state in ConnectionState:
        connection = a_connection()
        connection.state = state
        open_in[state.value] = connection.is_open

    assert open_in == {
        "connecting": True,
        "connected": True,
        "in_game": True,
        "relayed": True,
        "disconnecting": False,
        "disconnected": False,
    }


def test_a_connection_goes_the_long_way_through_all_its_states() -> None:
    connection = a_connection()
    seen = [connection.state.value]

    for event in ("welcomed", "seated", "closed", "lost"):
        connection.happened(ConnectionStep(event))
        seen.append(connection.state.value)

    assert seen == ["connecting", "connected", "in_game", "disconnecting", "disconnected"]


# The picture


class Lamp(Enum):
    OFF = "off"
    ON = "on"
    BROKEN = "broken"


class Hand(Enum):
    PRESSED = "pressed"
    DROPPED = "dropped"


LAMP = Table(
    "lamp",
    Lamp.OFF,
    {
        Lamp.OFF: {Hand.PRESSED: Lamp.ON, Hand.DROPPED: Lamp.BROKEN},
        Lamp.ON: {Hand.PRESSED: Lamp.OFF},
        Lamp.BROKEN: {},
    },
)


def test_a_diagram_draws_the_start_every_transition_and_the_ends() -> None:
    assert LAMP.diagram().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> off",
        "    off --> on: pressed",
        "    off --> broken: dropped",
        "    on --> off: pressed",
        "    broken --> [*]",
    ]


@pytest.mark.parametrize("table", TABLES)
def test_a_diagram_has_one_arrow_for_every_specified_pair(table: Table[Any, Any]) -> None:
    arrows = {line.strip() for line in table.diagram().splitlines()[1:]}

    assert arrows == {
        f"[*] --> {STARTS[table.name]}",
        *(
            f"{state} --> {following}: {event}"
            for state, row in SPECIFIED[table.name].items()
            for event, following in row.items()
        ),
        *(f"{state} --> [*]" for state in ENDS[table.name]),
    }
