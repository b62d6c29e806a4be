"""Who is this? Authenticators and their port."""

from holdfast.identity.guest import Guest
from holdfast.identity.port import Approach, Authenticator, Identity, NotAuthentic

__all__ = ["Approach", "Authenticator", "Guest", "Identity", "NotAuthentic"]
