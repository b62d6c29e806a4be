"""The client for programs without an event loop: the same names in the same files, blocking.

Nothing is decided here. Each session has a thread of its own in which the asyncio session lives, so it stays connected
while the program is busy; the methods may be called from any thread.
"""

from holdfast.client.sync.placement import Placement
from holdfast.client.sync.room import ClientRoom
from holdfast.client.sync.session import ClientSession, connect
from holdfast.client.sync.watch import RoomWatch

__all__ = ["ClientRoom", "ClientSession", "Placement", "RoomWatch", "connect"]
