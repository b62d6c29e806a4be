"""Holdfast: the session layer for multiplayer games. Connections break; sessions don't."""

from holdfast.client.inbox import Resynced
from holdfast.client.room import ClientRoom
from holdfast.client.session import ClientSession, connect
from holdfast.core.errors import (
    AlreadySeated,
    Duplicate,
    Failed,
    HoldfastError,
    Invalid,
    NotFound,
    NotSeated,
    ProtocolError,
    Refused,
    RoomFull,
    RoomLocked,
    SessionEnded,
    Throttled,
)
from holdfast.core.frames import Auth, Outcome
from holdfast.core.handlers import on
from holdfast.core.infos import RoomInfo
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, MessageRefused, PlayerData, SeatLeft, Untyped
from holdfast.core.parts import Parts
from holdfast.core.player import Player
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import Session, SessionFlags
from holdfast.core.sessions import Sessions
from holdfast.server.agents import Agent
from holdfast.server.effects import Effect
from holdfast.server.run import run
from holdfast.server.server import Server

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AlreadySeated",
    "Auth",
    "ClientRoom",
    "ClientSession",
    "Duplicate",
    "Effect",
    "Failed",
    "HoldfastError",
    "Invalid",
    "Limits",
    "Message",
    "MessageRefused",
    "NotFound",
    "NotSeated",
    "Outcome",
    "Parts",
    "Player",
    "PlayerData",
    "ProtocolError",
    "Reason",
    "Refused",
    "Resynced",
    "Room",
    "RoomFull",
    "RoomInfo",
    "RoomLocked",
    "SeatLeft",
    "Server",
    "Session",
    "SessionEnded",
    "SessionFlags",
    "Sessions",
    "Throttled",
    "Untyped",
    "__version__",
    "connect",
    "on",
    "run",
]
