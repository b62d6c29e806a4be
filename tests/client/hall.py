"""A real server with a hall of two seats: who comes third waits in line."""

from typing import Any

from holdfast import PlayerData, Room, Server, Tcp, WebSocket
from holdfast.core.limits import Limits
from holdfast.core.placement import Queue
from holdfast.testing import generous


class Hall(Room[PlayerData]):
    """The first to come is the host."""

    max_players = 2
    waiting_max = 4
    election = "oldest"


def serve_halls(**options: Any) -> Server:
    """Changes are told at once; who asks for a room on the moon can wait."""
    queues = [Queue("here", ("*",)), Queue("moon", ("region:moon",), timeout_s=300.0)]
    limits = generous(Limits(watch_s=0.01))
    listen = [WebSocket(port=0), Tcp(port=0)]
    return Server([Hall], **{"listen": listen, "limits": limits, "queues": queues, **options})
