"""Player ids and roles: which are valid, and which ids are a guest's."""

from collections.abc import Iterable
from random import Random

from holdfast.core.errors import Invalid
from holdfast.core.tokens import printable
from holdfast.identity.port import Identity
from holdfast.schemas.player import PLAYER_CHARS_MAX

ROLES_MAX = 32
ROLE_CHARS_MAX = 64

_GUEST, _PLAYER = "guest-", "player-"
_ID_BYTES = 9
_ID_CHARS = len(printable(bytes(_ID_BYTES)))


def new_guest_id(random: Random) -> str:
    """The id of a guest who has never been here."""
    return _GUEST + printable(random.randbytes(_ID_BYTES))


def new_player_id(random: Random) -> str:
    """The id of a player with an account."""
    return _PLAYER + printable(random.randbytes(_ID_BYTES))


def is_guest(player_id: str) -> bool:
    """Whether this is, or once was, a guest: such ids are made up by the server, and are nobody else's."""
    return player_id.startswith(_GUEST)


def is_made_up(player_id: str) -> bool:
    """Whether this looks like an id that the server makes up: whoever proves to be called so elsewhere is not them."""
    return is_guest(player_id) or (player_id.startswith(_PLAYER) and len(player_id) == len(_PLAYER) + _ID_CHARS)


def is_player_id(text: str) -> bool:
    """Whether this can be a player's id: it is shown in logs and lists, so it is one line of printable text.

    It is also part of URLs, in which "." and ".." are folded away, however they are written.
    """
    return 0 < len(text) <= PLAYER_CHARS_MAX and text.isprintable() and text not in {".", ".."}


def are_roles(roles: list[str]) -> bool:
    """Whether these can be a player's roles."""
    return len(roles) <= ROLES_MAX and all(0 < len(role) <= ROLE_CHARS_MAX and role.isprintable() for role in roles)


def checked_identity(answer: object, scheme: str) -> Identity:
    """What an authenticator has answered, if that can be a player; if not, it is a bug of the authenticator."""
    if not isinstance(answer, Identity):
        raise TypeError(f"the authenticator of {scheme!r} must answer with an Identity; a hook may with a player's id")
    player_id: object = answer.player_id
    if not isinstance(player_id, str) or not is_player_id(player_id) or not are_roles([*answer.roles]):
        raise ValueError(f"the authenticator of {scheme!r} answered with what cannot be a player's id or roles")
    return answer


def checked_player(player_id: str) -> str:
    """The player id for a new account, or none (empty); `Invalid` if it is not a player id."""
    if player_id and not is_player_id(player_id):
        raise Invalid("a player's id is one line of printable text, 128 characters at most")
    return player_id


def checked_roles(roles: Iterable[str]) -> list[str]:
    """Roles, sorted and without duplicates; `Invalid` if one is not a role."""
    checked = sorted(set(roles))
    if not are_roles(checked):
        raise Invalid("at most 32 roles, each of 1 to 64 printable characters")
    return checked
