"""Authentication: one port, and the authenticators for guests, passwords, tokens, tickets and hooks."""

from holdfast.identity.guest import Guest
from holdfast.identity.hashing import Argon2Settings
from holdfast.identity.hook import Hook
from holdfast.identity.jwt import Jwt
from holdfast.identity.password import Password
from holdfast.identity.port import (
    Approach,
    AuthContext,
    Authenticator,
    Busy,
    Closing,
    Identity,
    Linkable,
    NotAuthentic,
    Preparing,
)
from holdfast.identity.tickets import Tickets

__all__ = [
    "Approach",
    "Argon2Settings",
    "AuthContext",
    "Authenticator",
    "Busy",
    "Closing",
    "Guest",
    "Hook",
    "Identity",
    "Jwt",
    "Linkable",
    "NotAuthentic",
    "Password",
    "Preparing",
    "Tickets",
]
