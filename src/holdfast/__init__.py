"""Holdfast: the session layer for multiplayer games. Connections break; sessions don't."""

from holdfast.client.connect import connect
from holdfast.client.inbox import Resynced
from holdfast.client.listeners import Drop
from holdfast.client.room import ClientRoom, Unconfirmed
from holdfast.client.saved import SessionFile, SessionStorage
from holdfast.client.session import ClientSession, RoomList
from holdfast.client.subscriptions import Placement, RoomWatch
from holdfast.core.errors import (
    AlreadySeated,
    AlreadySpectating,
    Conflict,
    Duplicate,
    Expired,
    Failed,
    HoldfastError,
    Invalid,
    NameNotAllowed,
    NameTaken,
    NotAllowed,
    NotFound,
    NotSeated,
    OtherVersion,
    ProtocolError,
    Refused,
    Reset,
    RoomFull,
    RoomLocked,
    SessionEnded,
    Throttled,
    WrongPassword,
)
from holdfast.core.groups import Group
from holdfast.core.handlers import on
from holdfast.core.limits import Limits, RoleLimits
from holdfast.core.messages import (
    Announcement,
    HostChanged,
    Message,
    MessageRefused,
    PlayerData,
    RoomUpdated,
    SeatLeft,
    Untyped,
)
from holdfast.core.placement import LatencyPolicy, Queue
from holdfast.core.reasons import Reason
from holdfast.core.room import Room, RoomAgent
from holdfast.core.room_context import Timer
from holdfast.core.session import Player, Session, SessionFlags, Spectator
from holdfast.core.sessions import Sessions
from holdfast.http.api import ApiKey, HttpApi, HttpLimits
from holdfast.library import PlayerStream, PlayerStreams
from holdfast.schemas.ban import BanInfo
from holdfast.schemas.frames import Auth, Outcome
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import ReservationInfo, WaitInfo
from holdfast.schemas.requests import PlacedPlayer
from holdfast.schemas.room import RoomInfo, RoomsChanged
from holdfast.server.agents import Agent
from holdfast.server.garbage import tune_gc
from holdfast.server.rooms.outbox import Effect
from holdfast.server.run import run
from holdfast.server.server import Server, Storage
from holdfast.state import Parts
from holdfast.state.markers import F32, Areas, Hidden, Private
from holdfast.transports.listeners import Enet, Tcp, Tls, Udp, WebSocket

__version__ = "0.1.0"

__all__ = [
    "F32",
    "Agent",
    "AlreadySeated",
    "AlreadySpectating",
    "Announcement",
    "ApiKey",
    "Areas",
    "Auth",
    "BanInfo",
    "ClientRoom",
    "ClientSession",
    "Conflict",
    "Drop",
    "Duplicate",
    "Effect",
    "Enet",
    "Expired",
    "Failed",
    "Group",
    "Hidden",
    "HoldfastError",
    "HostChanged",
    "HttpApi",
    "HttpLimits",
    "Invalid",
    "LatencyPolicy",
    "Limits",
    "Message",
    "MessageRefused",
    "NameNotAllowed",
    "NameTaken",
    "NotAllowed",
    "NotFound",
    "NotSeated",
    "OtherVersion",
    "Outcome",
    "Parts",
    "PlacedPlayer",
    "Placement",
    "PlacementInfo",
    "Player",
    "PlayerData",
    "PlayerStream",
    "PlayerStreams",
    "Private",
    "ProtocolError",
    "Queue",
    "Reason",
    "Refused",
    "ReservationInfo",
    "Reset",
    "Resynced",
    "RoleLimits",
    "Room",
    "RoomAgent",
    "RoomFull",
    "RoomInfo",
    "RoomList",
    "RoomLocked",
    "RoomUpdated",
    "RoomWatch",
    "RoomsChanged",
    "SeatLeft",
    "Server",
    "Session",
    "SessionEnded",
    "SessionFile",
    "SessionFlags",
    "SessionStorage",
    "Sessions",
    "Spectator",
    "Storage",
    "Tcp",
    "Throttled",
    "Timer",
    "Tls",
    "Udp",
    "Unconfirmed",
    "Untyped",
    "WaitInfo",
    "WebSocket",
    "WrongPassword",
    "__version__",
    "connect",
    "on",
    "run",
    "tune_gc",
]
