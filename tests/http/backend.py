"""A node that keeps everything in dictionaries. It follows the real rules where the API depends on them: refusals,
versions, idempotency, cursors, the ids of events."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct, convert
from msgspec.structs import replace

from holdfast.core.errors import Conflict, Expired, Failed, Invalid, NameTaken, NotFound, Refused, RoomFull, Throttled
from holdfast.core.limits import RoleLimits
from holdfast.core.session import changed_limits
from holdfast.identity.accounts import checked_name
from holdfast.identity.port import checked_player, checked_roles
from holdfast.schemas.account import AccountInfo, TicketInfo
from holdfast.schemas.ban import BanInfo, BanPage
from holdfast.schemas.cluster import PlayersWanted, SessionsWanted
from holdfast.schemas.node import (
    EventInfo,
    KindInfo,
    MemberInfo,
    MessageKind,
    NodeBroadcastInfo,
    NodeInfo,
    NodeList,
    OverviewInfo,
    PacketTarget,
    RoomPlace,
    SettingsInfo,
)
from holdfast.schemas.placement import PlacementInfo, QueueInfo
from holdfast.schemas.player import (
    PLAYER_CHARS_MAX,
    PlayerInfo,
    PlayerPage,
    PlayerState,
    ReservationInfo,
    SeatInfo,
    SpectatorInfo,
    SpectatorPage,
)
from holdfast.schemas.projection import project
from holdfast.schemas.recording import RecordingInfo, TurnInfo, TurnPage, TurnState
from holdfast.schemas.requests import Ban, Create, Release, Reserve, Search, StartPlacement, Update
from holdfast.schemas.role import RoleInfo, RolePage
from holdfast.schemas.room import RoomInfo, RoomOnNode, RoomsFound, RoomState
from holdfast.schemas.session import SessionInfo, SessionPage, TimelineEntry, TimelineInfo
from holdfast.server.operations import Operations

CALLS: Mapping[str, Mapping[str, str]] = {
    "rooms": {
        "create": "create_room",
        "get": "get_room",
        "update": "update_room",
        "end": "end_room",
        "state": "room_state",
        "messages": "room_messages",
        "broadcast": "broadcast",
        "seats": "seats_of",
        "reserve": "reserve",
        "release": "release",
        "kick": "kick",
        "spectators": "spectators_of",
        "kick_spectator": "kick_spectator",
    },
    "recordings": {
        "get": "get_recording",
        "turns": "recorded_turns",
        "turn": "recorded_turn",
        "file": "recording_file",
        "fork": "fork_room",
    },
    "everywhere": {
        "rooms": "search_rooms",
        "placed": "placed",
        "sessions": "list_sessions",
        "players": "list_players",
        "player": "get_player",
        "broadcast": "broadcast_to_sessions",
    },
    "timelines": {"of": "session_timeline", "latest_of": "player_timeline"},
    "nodes": {"list": "list_nodes", "drain": "drain_node", "move": "move_room"},
    "sessions": {
        "get": "get_session",
        "end": "end_session",
        "drop": "drop_session",
        "limit": "limit_session",
    },
    "players": {
        "roles": "list_roles",
        "grant": "grant_role",
        "revoke": "revoke_role",
        "reset_roles": "reset_roles",
    },
    "bans": {"page": "list_bans"},
    "access": {"ban": "ban", "unban": "unban", "sign_out": "sign_out"},
    "accounts": {
        "create": "create_account",
        "get": "get_account",
        "set_password": "set_password",
        "delete": "delete_account",
        "issue_ticket": "issue_ticket",
    },
    "placements": {
        "queues": "list_queues",
        "start": "start_placement",
        "list": "list_placements",
        "get": "get_placement",
        "stop": "stop_placement",
    },
    "overview": {
        "of": "overview_of",
        "overview": "overview",
        "watch": "overviews",
        "settings_of": "settings_of",
    },
    "node": {"settings": "settings", "kinds": "kinds"},
    "health": {"info": "node"},
    "events": {"read": "events"},
    "packets": {"targets": "list_packet_targets", "follow": "log_packets", "leave": "stop_logging_packets"},
    "metrics": {"text": "metrics"},
}
"""The parts of `Operations` that the API uses, and the methods of the fake that stand for theirs."""
KINDS = ("arena", "chess")
EVENTS_KEPT = 100
BANS_MAX = 50
ACCOUNTS_MAX = 50
PACKET_TARGETS_MAX = 16
T = TypeVar("T")


class FakeBackend:
    """One node, for the tests of its API."""

    def __init__(self) -> None:
        self.rooms: dict[str, RoomInfo] = {}
        self.seats: dict[str, list[SeatInfo]] = {}
        self.spectators: dict[str, list[SpectatorInfo]] = {}
        self.sessions: dict[str, SessionInfo] = {}
        self.placements: dict[str, PlacementInfo] = {}
        self.bans: dict[str, BanInfo] = {}
        self.roles: dict[str, RoleInfo] = {}
        self.accounts: dict[str, AccountInfo] = {}
        self.packet_targets: dict[str, PacketTarget] = {}
        self.info = NodeInfo("node-1", "eu-west", is_ready=True, is_healthy=True, rooms=0, rooms_max=100, sessions=0)
        self.members = [
            MemberInfo("node-1", "Kb3x", "alive", is_self=True),
            MemberInfo("node-2", "Zq9a", "alive", heard_s=0.1),
        ]
        self.kept: list[EventInfo] = []
        self.told: list[tuple[Any, ...]] = []
        """The reasons that operators gave, and the wishes that came."""
        self.readers = 0
        self.reader_left = asyncio.Event()
        self.asked_for_a_room = asyncio.Event()
        self.gate: asyncio.Event | None = None
        """Whoever makes a room waits for it, if there is one."""
        self.is_stopped = False
        self._once: dict[str, tuple[Struct, str]] = {}
        self._news = asyncio.Event()

    # Rooms

    async def create_room(self, request: Create) -> RoomInfo:
        self.told.append(("create", request))
        self.asked_for_a_room.set()
        if self.gate is not None:
            await self.gate.wait()
        if request.kind not in KINDS:
            raise NotFound(f"unknown kind of room {request.kind!r}")
        if request.properties.get("map") == "forbidden":
            raise Refused("there is no such map")
        if request.properties.get("map") == "broken":
            raise Failed("on_create raised")
        if len(self.rooms) >= self.info.rooms_max:
            raise Throttled("this node is full: it cannot take another room")
        for value in request.properties.values():
            if not all(isinstance(each, str | float | int) for each in (value if isinstance(value, list) else [value])):
                raise Invalid("properties: use text, numbers, true, false and lists of them")
        if request.max_players is not None and request.max_players < 1:
            raise Invalid(f"max_players must be at least 1; got {request.max_players}")
        if (known := self._known(request.idempotency_key, request)) is not None:
            return self.rooms[known]
        if request.name and any(room.name == request.name for room in self.rooms.values()):
            raise NameTaken(f"another room is called {request.name!r}")
        room = self.add_room(f"room-{len(self.rooms) + 1}", request.kind)
        room = replace(
            room,
            properties=request.properties,
            max_players=request.max_players or room.max_players,
            open_seats=request.max_players or room.max_players,
            name=request.name,
            visibility=request.visibility,
            has_password=bool(request.password),
        )
        self.rooms[room.id] = room
        self._remember(request.idempotency_key, request, room.id)
        self.publish("room_created", room=room.id)
        return room

    async def search_rooms(self, request: Search) -> RoomsFound:
        self.told.append(("search", request))
        if request.where not in {"", "open_seats > 0"}:
            raise Invalid(f"where, column 1: {request.where[:20]!r} is not understood")
        found = [
            room
            for room in self.rooms.values()
            if request.kind in {None, room.kind} and (not request.where or room.open_seats > 0)
        ]
        if request.order_by == ["id desc"]:
            found.reverse()
        page, cursor = _page(found, request.limit, request.cursor)
        return RoomsFound(list(map(self.placed, page)), cursor)

    def placed(self, room: RoomInfo) -> RoomOnNode:
        return project(room, RoomOnNode)

    async def move_room(self, room_id: str, to: str) -> RoomPlace:
        self.get_room(room_id)
        self.find_node(to)
        self.told.append(("move", room_id, to))
        return RoomPlace(room_id, to)

    def get_room(self, room_id: str) -> RoomInfo:
        if room_id not in self.rooms:
            raise NotFound(f"there is no room {room_id[:80]!r}; it may have ended")
        return self.rooms[room_id]

    async def update_room(self, request: Update) -> RoomInfo:
        self.told.append(("update", request))
        room = self.get_room(request.room)
        if request.if_version is not None and request.if_version != room.version:
            raise Conflict(f"the room is at version {room.version} now, not {request.if_version}: read it again")
        properties = {
            name: value for name, value in (room.properties | request.set).items() if name not in request.remove
        }
        changes = {
            "name": request.name,
            "max_players": request.max_players,
            "is_locked": request.locked,
            "host": request.host,
        }
        room = replace(
            room,
            properties=properties,
            version=room.version + 1,
            **{name: value for name, value in changes.items() if value is not None},
        )
        self.rooms[room.id] = room
        self.publish("room_updated", room=room.id)
        return room

    async def end_room(self, room_id: str, reason: str) -> RoomInfo:
        self.told.append(("end_room", room_id, reason))
        room = replace(self.get_room(room_id), status="ending", reason=reason)
        self.rooms[room_id] = room
        self.publish("room_ended", room=room_id)
        return room

    def room_state(self, room_id: str) -> RoomState:
        self.get_room(room_id)
        players = [PlayerState(seat.player, seat.state, {"hp": 100}, []) for seat in self.seats.get(room_id, [])]
        return RoomState(room_id, {"round": 3}, {}, players)

    def room_messages(self, room_id: str) -> AsyncIterator[EventInfo]:
        self.get_room(room_id)
        return self.events()

    async def broadcast(self, room_id: str, message_type: str, body: Mapping[str, Any]) -> int:
        self.get_room(room_id)
        if message_type.startswith("holdfast."):
            raise Invalid("type: names that begin with 'holdfast.' are reserved")
        self.told.append(("broadcast", room_id, message_type, dict(body)))
        return len(self.seats.get(room_id, []))

    def kinds(self) -> list[KindInfo]:
        move = MessageKind("move", "", {"type": "object", "properties": {"x": {"type": "number"}}})
        return [KindInfo(kind, {"max_players": 4}, [move]) for kind in KINDS]

    # Recordings

    def get_recording(self, room_id: str) -> RecordingInfo:
        room = self.get_room(room_id)
        return RecordingInfo(room_id, room.kind, first=1, last=1, began_at=0.0, bytes=100, is_live=True)

    async def recorded_turns(self, room_id: str, *, first: int = 0, limit: int = 100, player: str = "") -> TurnPage:
        self.get_room(room_id)
        turns = [self._turn(player)][:limit] if first <= 1 else []
        return TurnPage(turns, 1, 1)

    async def recorded_turn(self, room_id: str, number: int, *, player: str = "") -> TurnState:
        self.get_room(room_id)
        if number > 1:
            raise NotFound(f"the recording has no turn {number}")
        return TurnState(self._turn(player), {"state": {"round": 3}})

    def _turn(self, player: str) -> TurnInfo:
        return TurnInfo(1, 0.0, 0.1, "message", "move", player, {"x": 1.0}, ["state.round"])

    def recording_file(self, room_id: str) -> bytes:
        self.get_room(room_id)
        return b"recording"

    async def fork_room(self, room_id: str, number: int) -> RoomInfo:
        await self.recorded_turn(room_id, number)
        return replace(self.rooms[room_id], id=f"fork of {room_id}")

    # Seats

    def seats_of(self, room_id: str) -> list[SeatInfo]:
        self.get_room(room_id)
        return self.seats.get(room_id, [])

    async def reserve(self, request: Reserve) -> ReservationInfo:
        room = self.get_room(request.room)
        seats = self.seats.setdefault(request.room, [])
        new = [player for player in request.players if player not in {seat.player for seat in seats}]
        if len(seats) + len(new) > room.max_players:
            raise RoomFull("every seat is taken, held or reserved")
        ttl_s = request.ttl_s or 60.0
        seats += [SeatInfo(player, "reserved", expires_in_s=ttl_s) for player in new]
        return ReservationInfo(request.room, request.players, ttl_s)

    async def release(self, request: Release) -> None:
        self._free(request.room, request.players[0], "reserved")

    async def kick(self, room_id: str, player_id: str, message: str) -> None:
        self.told.append(("kick", room_id, player_id, message))
        self._free(room_id, player_id, "taken")

    def _free(self, room_id: str, player_id: str, state: str) -> None:
        seats = self.seats_of(room_id)
        for seat in seats:
            if (seat.player, seat.state) == (player_id, state):
                seats.remove(seat)
                return
        raise NotFound(f"player {player_id[:80]!r} has no seat here that is {state}")

    # Spectators

    def spectators_of(self, room_id: str, *, limit: int, cursor: str) -> SpectatorPage:
        self.get_room(room_id)
        return SpectatorPage(*_page(self.spectators.get(room_id, []), limit, cursor))

    async def kick_spectator(self, room_id: str, player_id: str, message: str) -> None:
        self.get_room(room_id)
        watching = self.spectators.get(room_id, [])
        left = [each for each in watching if each.player != player_id]
        if len(left) == len(watching):
            raise NotFound(f"player {player_id[:80]!r} does not watch this room")
        self.told.append(("kick spectator", room_id, player_id, message))
        self.spectators[room_id] = left

    # Sessions and players

    async def list_sessions(self, wanted: SessionsWanted) -> SessionPage:
        found = [
            session
            for session in self.sessions.values()
            if wanted.player in {"", session.player}
            and wanted.status in {"", session.status}
            and wanted.search in session.id + session.player
        ]
        page, cursor = _page(found, wanted.limit, wanted.cursor)
        return SessionPage(page, cursor)

    def get_session(self, session_id: str) -> SessionInfo:
        if session_id not in self.sessions:
            raise NotFound(f"there is no session {session_id[:80]!r}")
        return self.sessions[session_id]

    async def end_session(self, session_id: str, reason: str) -> None:
        self.told.append(("end_session", session_id, reason))
        self.get_session(session_id)
        del self.sessions[session_id]

    def drop_session(self, session_id: str, reason: str) -> None:
        self.get_session(session_id)
        self.told.append(("drop_session", session_id, reason))

    async def broadcast_to_sessions(
        self, *, text: str, message_type: str, body: Mapping[str, Any], role: str, kind: str, by: str
    ) -> NodeBroadcastInfo:
        if bool(text) is bool(message_type):
            raise Invalid("give either a text, or the type of a message and its body")
        if kind and kind not in KINDS:
            raise NotFound(f"unknown kind of room {kind[:80]!r}")
        self.told.append(("broadcast_to_sessions", text, message_type, dict(body), role, kind, by))
        return NodeBroadcastInfo(len(self.sessions))

    def limit_session(self, session_id: str, /, **limits: float | None) -> SessionInfo:
        session = self.get_session(session_id)
        self.told.append(("limit_session", session_id, limits))
        try:
            changed = changed_limits(convert(session.limits, RoleLimits), limits)
        except (TypeError, ValueError) as error:
            raise Invalid(str(error)) from None
        self.sessions[session_id] = replace(session, limits=changed.values() if changed is not None else {})
        return self.sessions[session_id]

    async def session_timeline(self, session_id: str) -> TimelineInfo:
        session = self.get_session(session_id)
        entry = TimelineEntry(1_700_000_000.5, "session.opened", "signed in", {"session": session_id})
        return TimelineInfo(session_id, session.player, session.status, "Nothing has gone wrong.", [entry])

    async def player_timeline(self, player_id: str) -> TimelineInfo:
        sessions = (await self.get_player(player_id)).sessions
        if not sessions:
            raise NotFound(f"player {player_id[:80]!r} has no session on this node")
        return await self.session_timeline(sessions[-1])

    async def list_players(self, wanted: PlayersWanted) -> PlayerPage:
        players = sorted({session.player for session in self.sessions.values() if wanted.search in session.player})
        page, cursor = _page([await self.get_player(player) for player in players], wanted.limit, wanted.cursor)
        return PlayerPage(page, cursor)

    async def get_player(self, player_id: str) -> PlayerInfo:
        own = [session for session in self.sessions.values() if session.player == player_id]
        roles = self.roles.get(player_id)
        if not own and roles is None:
            raise NotFound(f"player {player_id[:80]!r} has no session, seat or reservation on this node")
        roles = roles or RoleInfo(player_id)
        sessions, rooms = [session.id for session in own], [session.room for session in own if session.room]
        return PlayerInfo(player_id, sessions, rooms, granted=roles.granted, revoked=roles.revoked)

    async def sign_out(self, player_id: str, why: str = "") -> None:
        self.told.append(("sign_out", player_id, why))
        self.sessions = {name: each for name, each in self.sessions.items() if each.player != player_id}

    # Roles

    def list_roles(self, limit: int, cursor: str) -> RolePage:
        page, cursor = _page(list(self.roles.values()), limit, cursor)
        return RolePage(page, cursor)

    async def grant_role(self, player_id: str, role: str, *, by: str) -> PlayerInfo:
        self.told.append(("grant", player_id, role, by))
        return await self._change_role(player_id, role, is_granted=True)

    async def revoke_role(self, player_id: str, role: str, *, by: str) -> PlayerInfo:
        self.told.append(("revoke", player_id, role, by))
        return await self._change_role(player_id, role, is_granted=False)

    async def _change_role(self, player_id: str, role: str, *, is_granted: bool) -> PlayerInfo:
        checked_roles([role])
        if len(player_id) > PLAYER_CHARS_MAX or role in {".", ".."}:
            raise Invalid("an id or a role is too long")
        if player_id not in self.roles and len(self.roles) >= BANS_MAX:
            raise Throttled(f"the roles of {BANS_MAX} players are changed, which is the limit")
        self.roles[player_id] = RoleInfo(player_id, [role] if is_granted else [], [] if is_granted else [role])
        return await self.get_player(player_id)

    async def reset_roles(self, player_id: str, *, by: str) -> PlayerInfo:
        self.told.append(("reset_roles", player_id, by))
        self.roles.pop(player_id, None)
        return PlayerInfo(player_id, [], [])

    # Bans

    def list_bans(self, limit: int, cursor: str) -> BanPage:
        page, cursor = _page(list(self.bans.values()), limit, cursor)
        return BanPage(page, cursor)

    async def ban(self, request: Ban) -> BanInfo:
        self.told.append(("ban", request))
        if bool(request.player) == bool(request.address):
            raise Invalid("give either a player or an address")
        subject = f"player:{request.player}" if request.player else f"address:{request.address}"
        if subject not in self.bans and len(self.bans) >= BANS_MAX:
            raise Throttled(f"{BANS_MAX} bans are in force, which is the limit")
        until = request.until if request.for_s is None else 1_700_000_000.0 + request.for_s
        self.bans[subject] = BanInfo(subject, request.why, until, 1_700_000_000.0)
        return self.bans[subject]

    async def unban(self, subject: str) -> None:
        if subject not in self.bans:
            raise NotFound(f"there is no ban of {subject[:80]!r}")
        del self.bans[subject]

    # Accounts and tickets

    async def create_account(self, name: str, password: str, *, player: str, roles: Iterable[str]) -> AccountInfo:
        self.told.append(("create_account", name, password))
        name = checked_name(name)
        if name in self.accounts:
            raise Conflict(f"there is an account {name!r} already")
        if len(self.accounts) >= ACCOUNTS_MAX:
            raise Throttled("too many passwords are being checked at the moment")
        self.accounts[name] = AccountInfo(name, checked_player(player), checked_roles(roles), 1_700_000_000.0)
        return self.accounts[name]

    async def get_account(self, name: str) -> AccountInfo:
        if name not in self.accounts:
            raise NotFound(f"there is no account {name[:80]!r}")
        return self.accounts[name]

    async def set_password(self, name: str, password: str) -> None:
        await self.get_account(name)
        self.told.append(("set_password", name, password))

    async def delete_account(self, name: str) -> None:
        await self.get_account(name)
        del self.accounts[name]

    def issue_ticket(self, player: str, *, roles: Iterable[str], ttl_s: float | None) -> TicketInfo:
        self.told.append(("issue_ticket", player, list(roles), ttl_s))
        if not checked_player(player) or (ttl_s or 0) > 300:
            raise Invalid("ttl_s: a ticket is good for more than 0 and at most 300 s")
        return TicketInfo("a.ticket", player, 1_700_000_000.0 + (ttl_s or 30.0))

    # Placements

    def list_queues(self) -> list[QueueInfo]:
        pending = sum(placement.status == "pending" for placement in self.placements.values())
        return [QueueInfo("europe", ["node-1"], timeout_s=30.0, pending=pending)]

    async def start_placement(self, request: StartPlacement) -> PlacementInfo:
        if request.queue != "europe":
            raise NotFound(f"there is no queue {request.queue!r}")
        if (known := self._known(request.id, request)) is not None:
            return self.placements[known]
        placement_id = request.id or f"placement-{len(self.placements) + 1}"
        players = [player.id for player in request.players]
        placement = PlacementInfo(placement_id, request.queue, "pending", players, started_at=1_700_000_000.0)
        self.placements[placement_id] = placement
        self._remember(request.id, request, placement_id)
        return placement

    async def list_placements(self) -> tuple[list[PlacementInfo], list[str]]:
        return list(self.placements.values()), ["node-3"]

    async def get_placement(self, placement_id: str) -> PlacementInfo:
        if placement_id not in self.placements:
            raise NotFound(f"there is no placement {placement_id[:80]!r}")
        return self.placements[placement_id]

    async def stop_placement(self, placement_id: str) -> PlacementInfo:
        placement = await self.get_placement(placement_id)
        if placement.status != "pending":
            raise Conflict(f"the placement is {placement.status} already")
        self.placements[placement_id] = replace(placement, status="cancelled")
        return self.placements[placement_id]

    # The node

    def node(self) -> NodeInfo:
        return self.info

    def list_nodes(self) -> NodeList:
        return NodeList(self.members, "nats://127.0.0.1:4222/arena")

    async def drain_node(self, name: str, *, is_on: bool = True) -> MemberInfo:
        node = replace(self.find_node(name), is_draining=is_on)
        self.members = [node if each.name == name else each for each in self.members]
        return node

    def find_node(self, name: str) -> MemberInfo:
        for node in self.members:
            if name in {node.name, node.life}:
                return node
        raise NotFound(f"there is no node {name[:80]!r} in the cluster")

    async def overview_of(self, name: str) -> OverviewInfo:
        self.find_node(name)
        return await self.overview()

    async def overview(self) -> OverviewInfo:
        return OverviewInfo(1_700_000_000.5, self.info, len(self.sessions), {"connected": 1}, {}, {}, {}, {}, [])

    def overviews(self) -> AsyncIterator[EventInfo]:
        return self.events()

    async def settings_of(self, name: str) -> SettingsInfo:
        if name:
            self.find_node(name)
        return self.settings()

    def settings(self) -> SettingsInfo:
        return SettingsInfo(
            "0.1.0", 1_700_000_000.5, {"websocket": "ws://127.0.0.1:7777"}, [], ["guest"], "", 30.0, "", []
        )

    async def metrics(self, *, sessions_max: int) -> bytes:
        self.told.append(("metrics", sessions_max))
        return f'holdfast_sessions{{status="connected"}} {len(self.sessions)}\n'.encode()

    def list_packet_targets(self) -> list[PacketTarget]:
        return list(self.packet_targets.values())

    def log_packets(self, target: str, for_s: float | None) -> PacketTarget:
        if for_s is not None and for_s > 86_400:
            raise Invalid(f"for_s: packets are logged for 86400 s at most; got {for_s:g}")
        if "." not in target:
            self.get_session(target)
        if len(self.packet_targets) >= PACKET_TARGETS_MAX:
            raise Throttled("the packets of so many are logged already: switch one off first")
        kind = "address" if "." in target else "session"
        self.packet_targets[target] = PacketTarget(target, kind, for_s or 600.0)
        return self.packet_targets[target]

    def stop_logging_packets(self, target: str) -> None:
        if target not in self.packet_targets:
            raise NotFound(f"the packets of {target[:80]!r} are not logged")
        del self.packet_targets[target]

    async def events(self, after: str = "") -> AsyncIterator[EventInfo]:
        self.readers += 1
        try:
            position = int(after) if after else self.last_event_id
            while True:
                for event in [event for event in self.kept if event.id > position]:
                    position = event.id
                    yield event
                if self.is_stopped:
                    return
                self._news.clear()
                await self._news.wait()
        finally:
            self.readers -= 1
            self.reader_left.set()

    # For the tests

    @property
    def operations(self) -> Operations:
        """This node, as the API is given one."""
        parts = {
            part: SimpleNamespace(**{name: partial(self._call, call) for name, call in calls.items()})
            for part, calls in CALLS.items()
        }
        return cast("Operations", SimpleNamespace(**parts, elsewhere=None))

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)

    @property
    def last_event_id(self) -> int:
        return self.kept[-1].id if self.kept else 0

    def publish(self, event_type: str, **body: Any) -> None:
        self.kept.append(EventInfo(self.last_event_id + 1, event_type, 1_700_000_000.5, body))
        del self.kept[:-EVENTS_KEPT]
        self._news.set()

    def stop(self) -> None:
        self.is_stopped = True
        self._news.set()

    def add_room(self, room_id: str, kind: str = "arena") -> RoomInfo:
        room = RoomInfo(room_id, kind, 0, 4, "lobby", {}, open_seats=4, created_at=1_700_000_000.0, version=1)
        self.rooms[room_id] = room
        return room

    def add_session(self, session_id: str, player: str, room: str = "") -> None:
        self.sessions[session_id] = SessionInfo(session_id, player, "connected", room=room, transport="websocket")
        if room:
            seat = SeatInfo(player, "taken", session=session_id, latency_ms=20.0)
            self.seats.setdefault(room, []).append(seat)

    def _known(self, key: str, request: Struct) -> str | None:
        if not key or key not in self._once:
            return None
        before, made = self._once[key]
        if msgspec.json.encode(before) != msgspec.json.encode(request):
            raise Conflict(f"the key {key!r} was used for a different request")
        return made

    def _remember(self, key: str, request: Struct, made: str) -> None:
        if key:
            self._once[key] = (request, made)


def _page(found: list[T], limit: int, cursor: str) -> tuple[list[T], str]:
    if cursor and not (cursor.isascii() and cursor.isdigit()):
        raise Expired("this cursor is not known any more: search again")
    start = int(cursor[:9] or 0)
    page = found[start : start + limit]
    return page, str(start + limit) if start + limit < len(found) else ""
