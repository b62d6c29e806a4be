"""What a player can be called."""

import pytest

from holdfast.identity.port import is_player_id
from holdfast.schemas.player import PLAYER_CHARS_MAX
from tests.cases import every_case


@every_case("text", ["ada", "guest-1", "a b", "…", "...", ".a", "a" * PLAYER_CHARS_MAX])
def test_one_line_of_text_can_be_a_player(text: str) -> None:
    assert is_player_id(text)


@pytest.mark.parametrize("text", ["", "a\nb", "\x1b[2J", "a" * (PLAYER_CHARS_MAX + 1)])
def test_what_cannot_be_shown_cannot_be_a_player(text: str) -> None:
    assert not is_player_id(text)


@pytest.mark.parametrize("text", [".", ".."])
def test_what_no_url_can_name_cannot_be_a_player(text: str) -> None:
    """`DELETE /v1/rooms/R/seats/..` would be `DELETE /v1/rooms/R/`."""
    assert not is_player_id(text)
