"""Holdfast without its server: exactly-once messages for a server that has sockets of its own."""

from holdfast.library.session import PlayerStream
from holdfast.library.streams import PlayerStreams

__all__ = ["PlayerStream", "PlayerStreams"]
