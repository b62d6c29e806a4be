"""What a player can be called."""

import pytest

from holdfast import Invalid
from holdfast.core.session import agent_id, is_agent
from holdfast.identity import Approach, AuthContext, Hook, Identity, NotAuthentic, Password, Tickets
from holdfast.identity.port import checked_identity, is_player_id
from holdfast.schemas.player import PLAYER_CHARS_MAX
from tests.cases import every_case
from tests.identity.plain import enter

KEY = bytes(range(32))
AGENTS = ["agent:bot", "agent:", "Agent:bot", "AGENT:bot", "aGeNt:x"]


@every_case(
    "text", ["ada", "guest-1", "agent", "an agent: ada", "agents:ada", "a b", "…", "...", ".a", "a" * PLAYER_CHARS_MAX]
)
def test_one_line_of_text_can_be_a_player(text: str) -> None:
    assert is_player_id(text)


@pytest.mark.parametrize("text", ["", "a\nb", "\x1b[2J", "a" * (PLAYER_CHARS_MAX + 1)])
def test_what_cannot_be_shown_cannot_be_a_player(text: str) -> None:
    assert not is_player_id(text)


@pytest.mark.parametrize("text", [".", ".."])
def test_what_no_url_can_name_cannot_be_a_player(text: str) -> None:
    """`DELETE /v1/rooms/R/seats/..` would be `DELETE /v1/rooms/R/`."""
    assert not is_player_id(text)


# Agents


@every_case("text", AGENTS)
def test_no_authenticator_may_issue_the_id_of_an_agent(text: str) -> None:
    assert not is_player_id(text)
    with pytest.raises(ValueError, match="cannot be a player's id"):
        checked_identity(Identity(text), "any")


@every_case("text", AGENTS)
async def test_no_ticket_account_or_hook_is_for_an_agent(text: str) -> None:
    with pytest.raises(Invalid, match="agent"):
        Tickets(KEY).issue(text)
    with pytest.raises(Invalid, match="agent"):
        await Password().create_account("ada", "correct horse", player_id=text)
    with pytest.raises(ValueError, match="cannot be a player's id"):
        await enter(Hook(lambda _credential, _approach: text), "anything")


async def test_a_ticket_of_another_program_with_the_key_is_not_for_an_agent_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.identity.tickets.is_player_id", lambda _: True)
        ticket = Tickets(KEY).issue("agent:bot")
    door = Tickets(KEY)
    await door.prepare(AuthContext(wall_clock=lambda: 0.0))

    with pytest.raises(NotAuthentic):
        door.authenticate(ticket, Approach())


def test_the_name_of_an_agent_makes_its_id() -> None:
    assert agent_id("bot") == "agent:bot"
    assert agent_id("x" * 122) == "agent:" + "x" * 122
    assert is_agent("agent:bot")
    assert not is_agent("guest-1")
