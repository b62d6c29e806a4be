import pytest

from holdfast.core.errors import NotAllowed
from holdfast.core.listed_room import check_role


@pytest.mark.parametrize(("needed", "roles"), [("", ()), ("", ("gm",)), ("gm", ("gm",)), ("gm", ("vip", "gm"))])
def test_who_has_the_role_may(needed: str, roles: tuple[str, ...]) -> None:
    check_role(needed, frozenset(roles), "it")


@pytest.mark.parametrize("roles", [(), ("vip",), ("GM",), ("g", "m")])
def test_who_lacks_it_is_told_which(roles: tuple[str, ...]) -> None:
    with pytest.raises(NotAllowed, match="a seat here requires the role 'gm'"):
        check_role("gm", frozenset(roles), "a seat here")
