"""Who becomes the host: the same players give the same host."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from holdfast.core.listed_room import elect
from holdfast.core.room import Election
from holdfast.core.session import Player, SeatStep, seat_of
from tests.cases import every_case
from tests.core.samples import Hero, a_player


def seated(player_id: str, *, is_away: bool = False, latency_ms: float = 0.0) -> Player[Hero]:
    player = a_player(player_id)
    seat_of(player).happened(SeatStep.TAKEN)
    if latency_ms:
        player.session.latency.add(latency_ms)
    if is_away:
        seat_of(player).happened(SeatStep.DROPPED)
    return player


def elected(players: Sequence[Player[Hero]], election: Election, successor: str = "") -> str | None:
    player = elect(players, election, successor)
    return player.id if player is not None else None


@every_case("election", ["none", "oldest", "latency"])
@every_case("successor", ["", "ada"])
def test_nobody_is_elected_in_an_empty_room(election: Election, successor: str) -> None:
    assert elected([], election, successor) is None


def test_without_an_election_there_is_no_host() -> None:
    assert elected([seated("ada"), seated("bob")], "none") is None


def test_the_oldest_is_who_joined_first() -> None:
    for names in permutations(["ada", "bob", "cyd"]):
        assert elected([seated(name) for name in names], "oldest") == names[0]


def test_who_is_here_goes_before_who_is_away() -> None:
    assert elected([seated("ada", is_away=True), seated("bob"), seated("cyd")], "oldest") == "bob"


def test_where_all_are_away_who_joined_first_is_the_host() -> None:
    assert elected([seated("ada", is_away=True), seated("bob", is_away=True)], "oldest") == "ada"


def test_the_shortest_round_trip_wins() -> None:
    players = [seated("ada", latency_ms=80), seated("bob", latency_ms=20), seated("cyd", latency_ms=50)]

    for order in permutations(players):
        assert elected(order, "latency") == "bob"


def test_one_that_was_not_measured_has_not_the_shortest() -> None:
    assert elected([seated("ada"), seated("bob", latency_ms=500)], "latency") == "bob"


def test_in_a_tie_who_joined_first_is_the_host() -> None:
    assert elected([seated("ada", latency_ms=20), seated("bob", latency_ms=20)], "latency") == "ada"
    assert elected([seated("ada"), seated("bob")], "latency") == "ada"


def test_the_shortest_round_trip_of_one_who_is_away_does_not_count() -> None:
    players = [seated("ada", latency_ms=5, is_away=True), seated("bob", latency_ms=90)]

    assert elected(players, "latency") == "bob"


@pytest.mark.parametrize("election", ["none", "oldest", "latency"])
def test_the_named_successor_goes_before_every_rule(election: Election) -> None:
    players = [seated("ada", latency_ms=1), seated("bob", latency_ms=90), seated("cyd", latency_ms=90)]

    assert elected(players, election, "cyd") == "cyd"


def test_a_successor_who_is_not_in_the_room_does_not_count() -> None:
    assert elected([seated("ada")], "oldest", "zoe") == "ada"
    assert elected([seated("ada")], "none", "zoe") is None
