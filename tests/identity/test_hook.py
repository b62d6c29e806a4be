"""The game decides: what its function says is who it is, and what it raises is what the client hears."""

import json

import pytest

from holdfast import Refused
from holdfast.identity import Approach, Hook, Identity, NotAuthentic

HERE = Approach("203.0.113.7", "websocket")


async def test_a_function_may_wait_and_return_an_identity() -> None:
    async def approve(credential: str, approach: Approach) -> Identity:
        asked = json.loads(credential)
        return Identity(asked["name"], frozenset({"beta"}), data={"team": asked["team"], "from": approach.address})

    identity = await Hook(approve).authenticate('{"name": "ada", "team": 2}', HERE)

    assert identity.player_id == "ada"
    assert identity.roles == {"beta"}
    assert identity.data == {"team": 2, "from": "203.0.113.7"}


async def test_a_function_may_return_at_once_and_only_the_players_id() -> None:
    assert await Hook(lambda credential, _: credential.upper()).authenticate("ada", HERE) == Identity("ADA")


class MembersOnly(Refused):
    """Of the game."""

    code = "members_only"


@pytest.mark.parametrize("error", [NotAuthentic("who are you?"), Refused("not today"), MembersOnly(), KeyError("bug")])
async def test_what_it_raises_is_passed_on(error: Exception) -> None:
    def approve(credential: str, approach: Approach) -> str:
        raise error

    with pytest.raises(type(error)) as raised:
        await Hook(approve).authenticate("", HERE)

    assert raised.value is error


@pytest.mark.parametrize("answer", ["", "two\nlines", "x" * 129, "\ud800", Identity("ada", frozenset({""}))])
async def test_what_cannot_be_a_player_is_a_bug_of_the_game(answer: str | Identity) -> None:
    with pytest.raises(ValueError, match="authenticator of 'door'"):
        await Hook(lambda *_: answer, scheme="door").authenticate("", HERE)


async def test_an_answer_that_is_none_is_a_bug_of_the_game() -> None:
    with pytest.raises(TypeError, match="must answer with an Identity"):
        await Hook(lambda *_: None).authenticate("", HERE)  # type: ignore[arg-type]  # that is the point


def test_a_scheme_can_be_chosen() -> None:
    assert Hook(lambda *_: "ada").scheme == "hook"
    assert Hook(lambda *_: "ada", scheme="steam").scheme == "steam"
