from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.core.placement import (
    PLACEMENT_TABLE,
    LatencyPolicy,
    PlacementEvent,
    PlacementState,
    Queue,
    check_players,
    next_relaxation_s,
    ranking,
    why_nowhere,
)
from holdfast.core.tables import IllegalTransition
from holdfast.schemas.node import NodeInfo
from holdfast.schemas.requests import PlacedPlayer, StartPlacement
from tests.cases import every_case


def a_node(name: str, region: str = "eu", **facts: Any) -> NodeInfo:
    return NodeInfo(
        name, region, **{"is_ready": True, "is_healthy": True, "rooms": 0, "rooms_max": 100, "sessions": 0, **facts}
    )


def a_player(name: str, **latencies_ms: float) -> PlacedPlayer:
    return PlacedPlayer(name, latencies_ms)


def names(
    queue: Queue, nodes: list[NodeInfo], players: list[PlacedPlayer] | None = None, waited_s: float = 0.0
) -> list[str]:
    return [node.name for node in ranking(queue, nodes, players or [], waited_s)]


ANYWHERE = Queue("anywhere", ("*",))


# Destinations


def test_a_destination_is_a_node_a_region_or_any_node() -> None:
    nodes = [a_node("a", "eu"), a_node("b", "eu"), a_node("c", "us")]

    assert names(Queue("one", ("b",)), nodes) == ["b"]
    assert names(Queue("region", ("region:eu",)), nodes) == ["a", "b"]
    assert names(Queue("all", ("*",)), nodes) == ["a", "b", "c"]
    assert names(Queue("mixed", ("c", "region:eu")), nodes) == ["c", "a", "b"]


def test_a_region_is_not_a_node_and_a_node_is_not_a_region() -> None:
    nodes = [a_node("eu", "us"), a_node("us", "eu")]

    assert names(Queue("node", ("eu",)), nodes) == ["eu"]
    assert names(Queue("region", ("region:eu",)), nodes) == ["us"]


def test_a_node_that_several_destinations_mean_is_ranked_once_where_the_first_of_them_stands() -> None:
    nodes = [a_node("a"), a_node("b"), a_node("c")]

    assert names(Queue("q", ("c", "region:eu", "a", "*")), nodes) == ["c", "a", "b"]


def test_nobody_is_ranked_where_there_is_no_node() -> None:
    assert names(ANYWHERE, []) == []
    assert names(Queue("q", ("gone", "region:mars")), [a_node("a")]) == []


@pytest.mark.parametrize(
    "facts", [{"is_ready": False}, {"is_healthy": False}, {"rooms": 100}, {"rooms": 101}, {"rooms_max": 0}]
)
def test_a_node_that_cannot_take_a_room_is_left_out(facts: dict[str, Any]) -> None:
    nodes = [a_node("bad", **facts), a_node("good", rooms=99)]

    assert names(Queue("q", ("bad", "good")), nodes) == ["good"]


# What is best


def test_the_least_loaded_node_comes_first_by_the_share_of_its_own_rooms() -> None:
    nodes = [a_node("small", rooms=5, rooms_max=10), a_node("big", rooms=40, rooms_max=1000), a_node("busy", rooms=99)]

    assert names(Queue("q", ("*",), priority=("load",)), nodes) == ["big", "small", "busy"]


def test_the_lowest_average_latency_comes_first() -> None:
    nodes = [a_node("asia", "asia"), a_node("us", "us"), a_node("eu", "eu")]
    players = [a_player("ada", eu=20, us=90, asia=200), a_player("bob", eu=100, us=10, asia=220)]

    assert names(ANYWHERE, nodes, players) == ["us", "eu", "asia"]


def test_a_player_who_reported_nothing_for_a_region_does_not_count_in_its_average() -> None:
    nodes = [a_node("eu", "eu"), a_node("us", "us")]
    players = [a_player("ada", eu=30, us=20), a_player("bob", us=60), a_player("cy")]

    assert names(ANYWHERE, nodes, players) == ["eu", "us"]


def test_a_region_for_which_nobody_reported_comes_after_those_that_are_known() -> None:
    nodes = [a_node("unknown", "mars"), a_node("far", "us", rooms=99)]

    assert names(ANYWHERE, nodes, [a_player("ada", us=900)]) == ["far", "unknown"]


def test_among_nodes_of_the_same_latency_the_load_decides_and_then_the_order() -> None:
    queue = Queue("q", ("c", "*"))
    nodes = [a_node("a", rooms=7), a_node("b", rooms=3), a_node("c", rooms=7), a_node("d", "us")]

    assert names(queue, nodes, [a_player("ada", eu=10, us=20)]) == ["b", "c", "a", "d"]


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (("latency", "load", "order"), ["near", "idle", "first"]),
        (("load", "latency", "order"), ["idle", "near", "first"]),
        (("order",), ["first", "idle", "near"]),
        ((), ["first", "idle", "near"]),
    ],
)
def test_the_queue_says_what_decides(priority: Any, expected: list[str]) -> None:
    queue = Queue("q", ("first", "idle", "near"), priority=priority)
    nodes = [
        a_node("near", "near", rooms=50),
        a_node("idle", "mid", rooms=10),
        a_node("first", "far", rooms=90),
    ]

    assert names(queue, nodes, [a_player("ada", near=5, mid=50, far=200)]) == expected


def test_equals_come_in_the_order_of_the_destinations_whatever_else_decides() -> None:
    queue = Queue("q", ("c", "a", "b"), priority=("load",))

    assert names(queue, [a_node("a"), a_node("b"), a_node("c")]) == ["c", "a", "b"]


def test_what_rounding_makes_of_an_average_decides_nothing() -> None:
    nodes = [a_node("a", "eu"), a_node("b", "us")]
    players = [a_player("ada", eu=0.1, us=0.3), a_player("bob", eu=0.2, us=0.2), a_player("cy", eu=0.3, us=0.1)]

    assert names(ANYWHERE, nodes, players) == ["a", "b"]


def test_equals_of_one_destination_come_in_the_order_of_their_names() -> None:
    assert names(ANYWHERE, [a_node("c"), a_node("a"), a_node("b")]) == ["a", "b", "c"]


# Latency policies

PATIENT = Queue("q", ("*",), latency_policies=(LatencyPolicy(150, 20), LatencyPolicy(50, 10)))


@every_case(
    ("waited_s", "expected"),
    [
        (0.0, ["near"]),
        (9.9, ["near"]),
        (10.0, ["near", "mid"]),
        (29.9, ["near", "mid"]),
        (30.0, ["near", "mid", "far"]),
        (59.0, ["near", "mid", "far"]),
    ],
)
def test_policies_hold_from_the_lowest_cap_up_and_then_any_node_will_do(waited_s: float, expected: list[str]) -> None:
    nodes = [a_node("far", "far"), a_node("mid", "mid"), a_node("near", "near")]
    players = [a_player("ada", near=50, mid=150, far=151), a_player("bob", near=10, mid=20, far=30)]

    assert names(PATIENT, nodes, players, waited_s) == expected


def test_under_a_policy_every_player_must_be_near_and_not_only_their_average() -> None:
    players = [a_player("ada", eu=1), a_player("bob", eu=51)]

    assert names(PATIENT, [a_node("a")], players) == []


def test_under_a_policy_a_player_who_reported_nothing_counts_as_too_far() -> None:
    players = [a_player("ada", eu=1), a_player("bob")]

    assert names(PATIENT, [a_node("a")], players) == []
    assert names(PATIENT, [a_node("a")], players, waited_s=30.0) == ["a"]


def test_without_players_no_node_is_too_far() -> None:
    assert names(PATIENT, [a_node("a")]) == ["a"]


@pytest.mark.parametrize(("waited_s", "at_s"), [(0.0, 10.0), (9.9, 10.0), (10.0, 30.0), (30.0, None), (99.0, None)])
def test_the_next_relaxation_is_when_the_policy_that_holds_ends(waited_s: float, at_s: float | None) -> None:
    assert next_relaxation_s(PATIENT, waited_s) == at_s


def test_a_policy_without_a_time_holds_until_the_queue_times_out() -> None:
    strict = Queue("q", ("*",), latency_policies=(LatencyPolicy(50, 10), LatencyPolicy(100)))

    assert names(strict, [a_node("a")], [a_player("ada", eu=101)], waited_s=59.9) == []
    assert next_relaxation_s(strict, 0.0) == 10.0
    assert next_relaxation_s(strict, 10.0) is None
    assert next_relaxation_s(ANYWHERE, 0.0) is None


# In general

LATENCIES = st.dictionaries(st.sampled_from(["eu", "us", "asia"]), st.floats(0, 60_000), max_size=3)
PLAYERS = st.lists(LATENCIES, max_size=4).map(
    lambda reports: [PlacedPlayer(f"p{number}", report) for number, report in enumerate(reports)]
)
NODES = st.lists(
    st.builds(
        NodeInfo,
        name=st.text("abc", min_size=1, max_size=2),
        region=st.sampled_from(["eu", "us", "asia"]),
        is_ready=st.booleans(),
        is_healthy=st.booleans(),
        rooms=st.integers(0, 3),
        rooms_max=st.integers(0, 3),
        sessions=st.just(0),
    ),
    unique_by=lambda node: node.name,
    max_size=12,
)
QUEUES = st.builds(
    Queue,
    name=st.just("q"),
    destinations=st.lists(st.sampled_from(["a", "b", "region:eu", "region:us", "*"]), min_size=1, unique=True).map(
        tuple
    ),
    latency_policies=st.lists(
        st.builds(LatencyPolicy, st.integers(1, 1000), st.integers(1, 15)),
        unique_by=lambda policy: policy.max_ms,
        max_size=4,
    ).map(tuple),
    priority=st.lists(st.sampled_from(["latency", "load", "order"]), unique=True).map(tuple),
)


@given(QUEUES, NODES, PLAYERS, st.floats(0, 90), st.randoms())
def test_the_ranking_depends_on_nothing_but_what_is_told(
    queue: Queue, nodes: list[NodeInfo], players: list[PlacedPlayer], waited_s: float, random: Any
) -> None:
    shuffled_nodes, shuffled_players = list(nodes), list(players)
    random.shuffle(shuffled_nodes)
    random.shuffle(shuffled_players)

    assert ranking(queue, nodes, players, waited_s) == ranking(queue, shuffled_nodes, shuffled_players, waited_s)


@given(QUEUES, NODES, PLAYERS, st.floats(0, 90), st.floats(0, 90))
def test_waiting_never_takes_a_node_away(
    queue: Queue, nodes: list[NodeInfo], players: list[PlacedPlayer], waited_s: float, longer_s: float
) -> None:
    before = {node.name for node in ranking(queue, nodes, players, waited_s)}

    assert before <= {node.name for node in ranking(queue, nodes, players, waited_s + longer_s)}


@given(QUEUES, NODES, PLAYERS, st.floats(0, 90))
def test_nothing_changes_before_the_next_relaxation(
    queue: Queue, nodes: list[NodeInfo], players: list[PlacedPlayer], waited_s: float
) -> None:
    relaxed_s = next_relaxation_s(queue, waited_s)
    until_s = 1e6 if relaxed_s is None else relaxed_s - 1e-9

    assert relaxed_s is None or relaxed_s > waited_s
    if until_s > waited_s:
        assert ranking(queue, nodes, players, until_s) == ranking(queue, nodes, players, waited_s)


def test_why_there_is_nowhere_to_go_is_told_in_numbers() -> None:
    nodes = [
        a_node("a", rooms=100),
        a_node("b", rooms=100),
        a_node("c", is_healthy=False),
        a_node("d", is_ready=False),
        a_node("e"),
        a_node("other", "us", rooms=100),
    ]
    queue = Queue("q", ("region:eu",), latency_policies=(LatencyPolicy(50, 10),))

    told = why_nowhere(queue, nodes, [a_player("ada", eu=51)], 0.0)

    assert told == "no node can take it: 2 full, 1 not healthy, 1 not ready, 1 too far from a player"


def test_a_fleet_without_any_destination_of_the_queue_is_told_too() -> None:
    told = why_nowhere(Queue("q", ("gone",)), [a_node("a")], [], 0.0)

    assert told == "no node can take it: the fleet has no destination of queue 'q'"


# What is refused


@every_case(
    ("settings", "sentence"),
    [
        ({"name": ""}, "1 to 64 characters"),
        ({"name": "q" * 65}, "1 to 64 characters"),
        ({"destinations": ()}, "needs a destination"),
        ({"destinations": ("",)}, "must be the name of a node"),
        ({"destinations": ("region:",)}, "must be the name of a node"),
        ({"destinations": ("a", "b", "a")}, "'a' twice"),
        ({"destinations": "node-1"}, "must be a tuple"),
        ({"destinations": ["node-1"]}, "must be a tuple"),
        ({"latency_policies": LatencyPolicy(10, 1)}, "must be a tuple"),
        ({"priority": "load"}, "must be a tuple"),
        ({"priority": ("cost",)}, "takes latency, load, order, each once"),
        ({"priority": ("load", "load")}, "takes latency, load, order, each once"),
        ({"timeout_s": 0}, "above 0, at most 3600"),
        ({"timeout_s": -1.0}, "above 0, at most 3600"),
        ({"timeout_s": 3601}, "above 0, at most 3600"),
        ({"timeout_s": inf}, "above 0, at most 3600"),
        ({"timeout_s": nan}, "above 0, at most 3600"),
        ({"timeout_s": True}, "above 0, at most 3600"),
        ({"timeout_s": "60"}, "above 0, at most 3600"),
        ({"latency_policies": (LatencyPolicy(50, 5), LatencyPolicy(50, 9))}, "two latency policies of 50 ms"),
        ({"latency_policies": (LatencyPolicy(50), LatencyPolicy(90, 9))}, "policy of 90 ms .* shorten for_s"),
        ({"latency_policies": (LatencyPolicy(50, 60), LatencyPolicy(90, 9))}, "policy of 90 ms .* shorten for_s"),
    ],
)
def test_a_queue_that_cannot_be_meant_is_refused_with_what_to_write(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Queue(**{"name": "q", "destinations": ("*",), **settings})


@every_case(
    ("policy", "sentence"),
    [
        ((0, 1), "max_ms must be"),
        ((-5, 1), "max_ms must be"),
        ((inf, 1), "max_ms must be"),
        ((nan, 1), "max_ms must be"),
        (("80", 1), "max_ms must be"),
        ((80, 0), "for_s must be"),
        ((80, nan), "for_s must be"),
        ((80, True), "for_s must be"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(policy: tuple[Any, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        LatencyPolicy(*policy)


def test_a_player_who_is_named_twice_is_refused() -> None:
    wish = StartPlacement("q", "arena", [a_player("ada"), a_player("bob"), a_player("ada", eu=5)])

    with pytest.raises(Invalid, match="'ada' is named 2 times"):
        check_players(wish)


def test_more_players_than_seats_are_refused() -> None:
    pair = [a_player("ada"), a_player("bob")]

    check_players(StartPlacement("q", "arena", pair, max_players=2))
    with pytest.raises(Invalid, match="2 players do not fit in a room for 1"):
        check_players(StartPlacement("q", "arena", pair, max_players=1))


# The table

ENDS = {"placed": "fulfilled", "stopped": "cancelled", "expired": "timed_out", "broken": "failed"}


@every_case("event", PlacementEvent)
@every_case("state", PlacementState)
def test_a_pending_placement_ends_in_one_of_four_ways_and_nothing_follows(
    state: PlacementState, event: PlacementEvent
) -> None:
    if state is PLACEMENT_TABLE.start:
        assert PLACEMENT_TABLE.after(state, event).value == ENDS[event.value]
    else:
        with pytest.raises(IllegalTransition, match=f"a placement that is {state.value} cannot be {event.value}"):
            PLACEMENT_TABLE.after(state, event)


def test_every_state_but_the_first_is_an_end() -> None:
    assert PLACEMENT_TABLE.start is PlacementState.PENDING
    assert [state.value for state in PlacementState] == ["pending", *ENDS.values()]
