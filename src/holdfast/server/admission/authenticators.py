"""A server's authenticators: found by scheme, prepared at the start, closed at the end; and errors of their store."""

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from holdfast.core.tokens import TOKEN_BYTES
from holdfast.identity.port import AuthContext, Authenticator, Busy, Closing, Preparing
from holdfast.stores.port import ABSENT, Full, RevisionConflict, Store, StoreError

_SECRET_KEY = "secret/guests"  # noqa: S105 - a key in the store, not a secret
# A failing store recovers soon or stays down; a full one stays full for a while.
_RETRY_AFTER_S = 2.0
_FULL_RETRY_AFTER_S = 60.0


def by_scheme(authenticators: Sequence[Authenticator]) -> Mapping[str, Authenticator]:
    """The authenticator of each scheme; `ValueError` if two have the same."""
    found = {each.scheme: each for each in authenticators}
    if len(found) < len(authenticators):
        schemes = ", ".join(each.scheme for each in authenticators)
        raise ValueError(f"auth: each scheme has one authenticator; got {schemes}")
    return found


async def prepare(authenticators: Iterable[Authenticator], make_context: Callable[[], Awaitable[AuthContext]]) -> None:
    """Give the context to the authenticators that use one."""
    if preparing := [each for each in authenticators if isinstance(each, Preparing)]:
        context = await make_context()
        for each in preparing:
            await each.prepare(context)


async def close(authenticators: Iterable[Authenticator]) -> None:
    """Let them release their resources."""
    for each in authenticators:
        if isinstance(each, Closing):
            await each.close()


async def kept_secret(store: Store | None) -> bytes:
    """The key that signs the identities of guests: generated once and saved in the store, if there is one."""
    while store is not None:
        known = await store.get(_SECRET_KEY)
        if known is not None:
            return known.value
        with contextlib.suppress(RevisionConflict):
            await store.put(_SECRET_KEY, secrets.token_bytes(TOKEN_BYTES), ABSENT)
    return secrets.token_bytes(TOKEN_BYTES)


def store_busy(error: StoreError) -> Busy:
    """The refusal for a credential that could not be looked up. (A broken store ends the process.)"""
    if isinstance(error, Full):
        return Busy(str(error), _FULL_RETRY_AFTER_S)
    return Busy("the server cannot check credentials at the moment", _RETRY_AFTER_S)
