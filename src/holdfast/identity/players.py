"""Player ids: which can be given out, and which are a guest's."""

from random import Random

from holdfast.core.tokens import printable
from holdfast.core.wishes import PLAYER_CHARS_MAX

ROLES_MAX = 32
ROLE_CHARS_MAX = 64

_GUEST = "guest-"
_ID_BYTES = 9


def new_guest_id(random: Random) -> str:
    """The id of a guest who has never been here."""
    return _GUEST + printable(random.randbytes(_ID_BYTES))


def new_player_id(random: Random) -> str:
    """The id of a player with an account."""
    return "player-" + printable(random.randbytes(_ID_BYTES))


def is_guest(player_id: str) -> bool:
    """Whether this is, or once was, a guest: such ids are made up by the server, and are nobody else's."""
    return player_id.startswith(_GUEST)


def is_player_id(text: str) -> bool:
    """Whether this can be a player's id: it is shown in logs and lists, so it is one line of printable text."""
    return 0 < len(text) <= PLAYER_CHARS_MAX and text.isprintable()


def are_roles(roles: list[str]) -> bool:
    """Whether these can be a player's roles."""
    return len(roles) <= ROLES_MAX and all(0 < len(role) <= ROLE_CHARS_MAX and role.isprintable() for role in roles)
