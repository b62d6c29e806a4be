"""Who is this? Authenticators, several of them at once, behind one port."""

from holdfast.identity.ground import Ground, Preparing
from holdfast.identity.guest import Guest
from holdfast.identity.hashing import Argon2Settings
from holdfast.identity.hook import Hook
from holdfast.identity.jwt import Jwt
from holdfast.identity.password import Password
from holdfast.identity.port import Approach, Authenticator, Busy, Closing, Identity, Linkable, NotAuthentic
from holdfast.identity.tickets import Tickets

__all__ = [
    "Approach",
    "Argon2Settings",
    "Authenticator",
    "Busy",
    "Closing",
    "Ground",
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
