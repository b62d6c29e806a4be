"""Who is this? Authenticators and their port."""

from holdfast.identity.guest import Guest
from holdfast.identity.port import Authenticator, Identity, NotAuthentic

__all__ = ["Authenticator", "Guest", "Identity", "NotAuthentic"]
