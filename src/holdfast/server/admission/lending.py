"""What a server lends its authenticators when it starts, and that they let go of it when it stops."""

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from holdfast.core.tokens import TOKEN_BYTES
from holdfast.identity.ground import Ground, Preparing
from holdfast.identity.port import Authenticator, Closing
from holdfast.stores.port import ABSENT, RevisionConflict, Store

_SECRET_KEY = "secret/guests"  # noqa: S105 - where it is, not what it is


def by_scheme(authenticators: Sequence[Authenticator]) -> Mapping[str, Authenticator]:
    """Which authenticator is for which scheme; `ValueError` if two are for the same."""
    found = {each.scheme: each for each in authenticators}
    if len(found) < len(authenticators):
        schemes = ", ".join(each.scheme for each in authenticators)
        raise ValueError(f"auth: each scheme has one authenticator; got {schemes}")
    return found


async def prepare(authenticators: Iterable[Authenticator], make_ground: Callable[[], Awaitable[Ground]]) -> None:
    """Lend them what they need, if any of them needs something."""
    if preparing := [each for each in authenticators if isinstance(each, Preparing)]:
        ground = await make_ground()
        for each in preparing:
            await each.prepare(ground)


async def close(authenticators: Iterable[Authenticator]) -> None:
    """Have them let go."""
    for each in authenticators:
        if isinstance(each, Closing):
            await each.close()


async def kept_secret(store: Store | None) -> bytes:
    """The key that proves who a guest is: made up once and kept with the rooms, if there is a store."""
    while store is not None:
        known = await store.get(_SECRET_KEY)
        if known is not None:
            return known.value
        with contextlib.suppress(RevisionConflict):
            await store.put(_SECRET_KEY, secrets.token_bytes(TOKEN_BYTES), ABSENT)
    return secrets.token_bytes(TOKEN_BYTES)
