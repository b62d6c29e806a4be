"""The rooms of a node: found by id and by kind, created, and forgotten when they end."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.core.addresses import AddressQuota, AddressShares
from holdfast.core.by_player import ByPlayer
from holdfast.core.channel import Channel
from holdfast.core.errors import Failed, Invalid, NotFound, Refused, Throttled
from holdfast.core.join_options import packed_options
from holdfast.core.listed_room import check_role
from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.room import Room, context_of
from holdfast.core.room_listing import RoomListing, RoomStep, check_properties, check_request, checked_config
from holdfast.core.session import SeatState, Session, SessionState
from holdfast.core.tokens import new_id
from holdfast.schemas.events import (
    RoomCreated,
    RoomEnded,
    RoomFailed,
    RoomReleased,
    SeatExpired,
    SeatFreed,
    SeatHeld,
    SeatReserved,
    SeatTaken,
)
from holdfast.schemas.requests import Create, PlacedPlayer, Update
from holdfast.schemas.room import CreationKey, PasswordHash, RoomInfo
from holdfast.server.context import Context
from holdfast.server.directory.room_index import RoomIndex
from holdfast.server.directory.room_names import RoomNames
from holdfast.server.directory.room_passwords import RoomPasswords
from holdfast.server.directory.shared_claims import SharedClaims
from holdfast.server.directory.watches import TellRooms
from holdfast.server.messages import MessageVersions
from holdfast.server.presence import Presence
from holdfast.server.rooms.kinds import check_room_type
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.services import ReservedSeats
from holdfast.server.rooms.switching import Switch
from holdfast.stores.port import Write


@dataclass(slots=True, kw_only=True)
class StoredRooms:
    """The part of a store that rooms use, filled where the server is composed. Without a store it does nothing."""

    is_kept: bool = False
    """Whether there is a store."""
    is_failing: Callable[[], bool] = lambda: False
    """Whether the store currently fails to save."""
    restore: Callable[[str], None] = lambda _room_id: None
    """Restore the room with this id, if the store has it."""
    restore_of_player: Callable[[str], None] = lambda _player_id: None
    """Restore the rooms in which a player has a seat."""
    is_elsewhere: Callable[[str], bool] = lambda _room_id: False
    """Whether another server has taken over the room with this id."""


@dataclass(slots=True)
class _ClaimedRoom:
    """A key and a name that a new room has on all nodes."""

    owner: str
    """The room that has the key: the new one, or one that was made before."""
    writes: list[Write] = field(default_factory=list)
    """To be written with the first record of the new room."""
    once_gone: Callable[[Callable[[], None]], None] = lambda then: then()
    """Calls a function when the new room, which could not be made, is not in the store either; never if another node
    has taken it over."""


MakeRunner = Callable[[type[Room[Any]], str], RoomRunner]

_ROOM_ID_BYTES = 9
_SEAT_EVENTS = {
    SeatState.RESERVED: SeatReserved,
    SeatState.TAKEN: SeatTaken,
    SeatState.HELD: SeatHeld,
    SeatState.FREED: SeatFreed,
    SeatState.EXPIRED: SeatExpired,
}


class Directory:
    """The rooms that exist, and the kinds that can be created."""

    def __init__(
        self,
        context: Context,
        shares: AddressShares,
        *,
        sessions: SessionRegistry,
        presence: Presence,
        stored: StoredRooms,
        make_runner: MakeRunner,
        reserved: ReservedSeats,
        passwords: RoomPasswords,
        is_healthy: Callable[[], bool],
        tell_rooms: TellRooms,
    ) -> None:
        """`make_runner` creates a room of a class with an id; `is_healthy` tells whether the node is; `tell_rooms`
        notifies the client of a watch.
        """
        self._context = context
        self._limits = context.limits
        self._loop = context.clock.loop
        self._publish = context.publish
        self._sessions = sessions
        self._presence = presence
        presence.on_gone.append(self.player_gone)
        self._stored = stored
        self._make_runner = make_runner
        self._is_healthy = is_healthy
        self.types: dict[str, type[Room[Any]]] = {}
        """The classes of rooms that can be created, by kind."""
        self._runners: dict[str, RoomRunner] = {}
        # Rooms being created, each with the time by which it must have started.
        self._beginning: dict[RoomRunner, asyncio.Timeout] = {}
        self.is_stopping = False
        """Whether new rooms are refused."""
        self._is_closed = False
        self._all_forgotten: asyncio.Future[None] | None = None
        # The rooms in which each player has a seat or a reservation.
        self._of_player: ByPlayer[RoomRunner] = ByPlayer()
        self.reserved = reserved
        self._quota: AddressQuota[str] = AddressQuota(shares)
        # Updates by the games of rooms whose new names are being claimed on all nodes.
        self._updates: dict[RoomRunner, deque[Update]] = {}
        self._updating: set[asyncio.Task[None]] = set()
        self.names = RoomNames(context.limits, context.random, context.clock.now)
        self.index = RoomIndex(context, shares, tell_rooms)
        self.message_versions = MessageVersions()
        self.passwords = passwords
        self.claims: SharedClaims | None = None
        """In a cluster: decides which room has a key or a unique name."""

    def __len__(self) -> int:
        return len(self._runners)

    def __iter__(self) -> Iterator[Room[Any]]:
        """A copy: rooms may end during the iteration."""
        return iter([runner.room for runner in self._runners.values()])

    def get(self, room_id: str) -> Room[Any] | None:
        runner = self._runners.get(room_id)
        return runner.room if runner is not None else None

    def runner(self, room_id: str) -> RoomRunner:
        """The runner of a room, or `NotFound`."""
        runner = self._runners.get(room_id)
        if runner is None:
            self._stored.restore(room_id)
            runner = self._runners.get(room_id)
        if runner is not None:
            return runner
        if self._stored.is_elsewhere(room_id):
            raise Throttled(f"room {room_id!r} is moving to another server; try again in a moment")
        raise NotFound(f"there is no room {room_id!r}; it may have ended", room_id=room_id)

    def find(self, room_id: str, code: str) -> RoomRunner:
        """The runner of a room, by its id or by its code."""
        if bool(room_id) == bool(code):
            raise Invalid("name the room by its id, or by its code")
        return self.runner(room_id or self.names.room_of_code(code))

    def runners(self) -> list[RoomRunner]:
        """The rooms, oldest first: a copy."""
        return list(self._runners.values())

    def offer(self, room_types: Iterable[type[Room[Any]]]) -> None:
        """Register kinds of rooms; invalid settings raise now, not when the first player joins."""
        for room_type in room_types:
            check_room_type(room_type, has_store=self._stored.is_kept)
            if room_type.kind in self.types:
                raise ValueError(f"two room classes have the kind {room_type.kind!r}: set `kind` on one of them")
            self.types[room_type.kind] = room_type

    # Creating rooms

    async def create(
        self, request: Create, creator: str = "", *, address: str = "", is_trusted: bool = False
    ) -> RoomRunner:
        """A new room, or the one created with the same key; `Refused` if a limit or the game refuses it.

        Each creator may have `rooms_per_player_max`, each address a share of all rooms; agents and operators have no
        limit.
        """
        check_request(request)
        make = partial(self._create, request, creator, address, is_trusted=is_trusted)
        if request.idempotency_key:
            room_id = await self.names.once(request, creator, make)
            if room_id not in self._runners:
                self.names.is_elsewhere(creator, request.idempotency_key)
            return self.runner(room_id)
        return self.runner(await make(None))

    def check_creator(self, creator: str, address: str) -> None:
        """Refuse a player or an address with too many rooms; an empty creator has no limit."""
        if self._quota.is_full(address, self._limits.rooms_max):
            self._alarm("address_share", creator, address)
            raise Throttled("too many rooms were created from your address: join one, or end one first")
        try:
            # Roles may have more or less than the server's. A player may have sessions with different ones.
            own = (session.limits.rooms_per_player_max for session in self._sessions.of_player(creator))
            most = max(own, default=self._limits.rooms_per_player_max)
            self.names.check_creator(creator, most, self.index.remote.count_of(creator))
        except Throttled:
            self._alarm("rooms_per_player_max", creator)
            raise

    def _alarm(self, limit: str, creator: str, address: str = "") -> None:
        name = self.name_of(creator)
        self._context.alarms.report(limit, "refused", player=creator, player_name=name, address=address)

    async def _create(
        self, request: Create, creator: str, address: str, once: CreationKey | None, *, is_trusted: bool
    ) -> str:
        def check() -> type[Room[Any]]:
            room_type = self._check_create(request)
            if not is_trusted:
                self.check_creator(creator, address)
            return room_type

        room_type, password = check(), None
        if request.password:
            password = await self.passwords.keep(request.password)
            # Other rooms may have been created during the wait.
            room_type = check()
        room_id = new_id(self._context.random.randbytes(_ROOM_ID_BYTES))
        if room_type.unique_names:
            self.names.check_name(room_type.kind, request.name, room_id)
        name = request.name if room_type.unique_names else ""
        async with self._claimed(room_type.kind, name, once, room_id) as claimed:
            if claimed.owner == room_id:
                await self._make(check(), room_id, request, creator, address, once, password, claimed)
            return claimed.owner

    @asynccontextmanager
    async def _claimed(
        self, kind: str, name: str, once: CreationKey | None, room_id: str
    ) -> AsyncIterator[_ClaimedRoom]:
        """The key and the name of a new room; if it is not made, they are free again."""
        claims, room = self.claims, _ClaimedRoom(room_id)
        if claims is None or (once is None and not name):
            yield room
            return

        def release() -> None:
            if once is not None:
                claims.release_key(once, room_id)
            if name:
                claims.release_name(kind, name, room_id)

        try:
            if once is not None:
                claimed = await claims.claim_key(once, room_id)
                if isinstance(claimed, str):
                    room.owner = claimed
                    yield room
                    return
                room.writes.append(claimed.write)
            if name:
                room.writes.append((await claims.claim_name(kind, name, room_id)).write)
            yield room
        except BaseException:
            room.once_gone(release)
            raise
        finally:
            claims.settled(room_id)

    async def _make(
        self,
        room_type: type[Room[Any]],
        room_id: str,
        request: Create,
        creator: str,
        address: str,
        once: CreationKey | None,
        password: PasswordHash | None,
        claimed: _ClaimedRoom,
    ) -> None:
        runner = self._make_runner(room_type, room_id)
        runner.persistence.claim(claimed.writes)
        room, context = runner.room, runner.context
        room.max_players = request.max_players or room_type.max_players
        context.listing = RoomListing(
            created_at=self._context.clock.wall_clock(),
            name=request.name,
            visibility=request.visibility,
            password=password,
            creator=creator,
            code=self.names.new_code(room_id),
            creation_key=once,
        )
        if password is not None:
            self.passwords.prove(context.listing, request.password)
        try:
            # The game has not had a turn in which another room could have taken the name.
            self.renamed(room)
            self.names.claim(room_id, creator)
            self._quota.take(room_id, address)
            await self._begin(runner, request)
        except BaseException as error:
            self.names.forget(room_id, context.listing)
            self._quota.give_back(room_id)
            if isinstance(error, Failed):
                why = context.listing.reason or "create_failed"
                self._publish(RoomFailed(room=room_id, kind=room.kind, why=why, info=runner.entry.public_info()))
            runner.abandon()
            claimed.once_gone = runner.persistence.once_saved
            raise
        # Only now: nobody may find a room that its game might still refuse.
        context.listing.happened(RoomStep.ACTIVATED)
        self.add(runner)
        self._context.counters.rooms_created += 1
        self._publish(RoomCreated(room=room_id, kind=room.kind, creator=creator, info=runner.entry.public_info()))
        runner.opened()

    def kind_for(self, request: Create) -> type[Room[Any]]:
        """The class of the requested room; an impossible request is refused."""
        room_type = self.types.get(request.kind)
        if room_type is None:
            known = ", ".join(sorted(self.types)) or "none"
            raise NotFound(f"unknown kind of room {request.kind!r}; this server has: {known}")
        seats, most = request.max_players, room_type.max_players
        if seats is not None and not 1 <= seats <= most:
            raise Invalid(f"max_players must be from 1 to {most} for the kind {request.kind!r}; got {seats}")
        check_properties(request.properties, self._limits.properties_bytes_max)
        checked_config(request.config, self._limits.config_bytes_max)
        self.message_versions.check(room_type, request.message_version)
        return room_type

    def packed_options(self, kind: str, player: PlacedPlayer) -> bytes | None:
        """What a player of a placement joins with; `Invalid` if the kind of room takes something else."""
        room_type = self.types.get(kind)
        if room_type is None:
            return None
        return packed_options(room_type, player.options, self._limits.options_bytes_max)

    def check_role(self, kind: str, roles: Collection[str]) -> None:
        """Refuse a player without the role that is required to create a room of this kind."""
        room_type = self.types.get(kind)
        if room_type is not None:
            check_role(room_type.create_role, roles, f"creating a room of the kind {kind!r}")

    def _check_create(self, request: Create) -> type[Room[Any]]:
        room_type = self.kind_for(request)
        self._check_node(room_type)
        return room_type

    def why_not_taken(self, kind: str, count: int) -> str:
        """Why this node cannot take so many rooms of a kind from another one; "" if it can."""
        if kind not in self.types:
            return f"this node does not serve the kind {kind!r}"
        if len(self._runners) + len(self._beginning) + count > self._limits.rooms_max:
            return "this node is full: it cannot take another room"
        try:
            self._check_node(self.types[kind])
        except Throttled as refusal:
            return str(refusal)
        return ""

    def _check_node(self, room_type: type[Room[Any]]) -> None:
        """Refuse a new room that this node cannot take."""
        if self.is_stopping:
            raise Throttled("this node is stopping")
        if not self._is_healthy():
            raise Throttled("this node is unhealthy and takes no new rooms; try again later")
        if len(self._runners) + len(self._beginning) >= self._limits.rooms_max:
            raise Throttled("this node is full: it cannot take another room")
        if room_type.durability != "memory" and self._stored.is_failing():
            raise Throttled("the store cannot save at the moment; try again later")

    async def _begin(self, runner: RoomRunner, request: Create) -> None:
        activation_s = self._limits.activation_s
        deadline = self._beginning[runner] = asyncio.timeout(activation_s)
        try:
            async with deadline:
                config = checked_config(request.config, self._limits.config_bytes_max)
                await runner.create(dict(request.properties), config)
        except TimeoutError:
            if not self._is_closed:
                runner.context.listing.reason = "activation_timeout"
                raise Failed(f"the room took longer than {activation_s:g} s to start") from None
        finally:
            del self._beginning[runner]
        if self._is_closed:
            raise Throttled("this node is stopping")
        if runner.context.is_closing:
            raise NotFound("the room closed as soon as it had started")

    def add(self, runner: RoomRunner) -> None:
        """Add a room: a new one, or one restored from the store."""
        room = runner.room
        self._runners[room.id] = runner
        self.names.add(room.id, runner.context.listing)
        self.renamed(room)
        self.index.add(runner)

    def adopt(self, room_type: type[Room[Any]], fill: Callable[[RoomRunner], None]) -> RoomRunner:
        """Add a private room that begins with a state of its own; its first turn is still to be taken."""
        self._check_node(room_type)
        room_id = new_id(self._context.random.randbytes(_ROOM_ID_BYTES))
        runner = self._make_runner(room_type, room_id)
        runner.context.listing = RoomListing(
            created_at=self._context.clock.wall_clock(), visibility="private", code=self.names.new_code(room_id)
        )
        try:
            fill(runner)
        except BaseException:
            self.names.forget(room_id, runner.context.listing)
            runner.abandon()
            raise
        runner.context.listing.happened(RoomStep.ACTIVATED)
        self.add(runner)
        self._context.counters.rooms_created += 1
        self._publish(RoomCreated(room=room_id, kind=room_type.kind, creator="", info=runner.entry.public_info()))
        return runner

    def expect(self, room_id: str, kind: str, listing: RoomListing) -> None:
        """A room is in the store and will be restored when it is requested: by id, by code or by its creation key."""
        self.names.expect(room_id, listing)
        room_type = self.types.get(kind)
        if room_type is not None and room_type.unique_names:
            self.names.name(kind, listing.name, room_id)

    def sort_by_age(self) -> None:
        """Sort the rooms by creation time, after a recovery that restored them in no order."""
        runners = sorted(self._runners.values(), key=lambda runner: runner.context.listing.created_at)
        self._runners = {runner.room.id: runner for runner in runners}

    # Ending rooms

    async def close_all(self, within_s: float) -> None:
        """End every room that would not survive this node; a room that stays in a turn is abandoned."""
        self.is_stopping = self._is_closed = True
        for task in self._updating:
            task.cancel()
        for deadline in self._beginning.values():
            if not deadline.expired():
                deadline.reschedule(self._loop.time())
        ending = [runner for runner in self._runners.values() if not runner.persistence.survives_stop]
        for runner in ending:
            runner.end("stopping")
        if not self._is_all_durable():
            self._all_forgotten = self._loop.create_future()
            await asyncio.wait([self._all_forgotten], timeout=within_s)
        for runner in ending:
            if runner.room.id in self._runners:
                room, info = runner.room, runner.entry.public_info()
                self._publish(RoomFailed(room=room.id, kind=room.kind, why="abandoned", info=info))
                runner.abandon()

    def suspend_all(self) -> None:
        """Release the durable rooms: they stay in the store."""
        for runner in list(self._runners.values()):
            if runner.persistence.survives_stop:
                info = runner.entry.public_info()
                self._publish(RoomReleased(room=runner.room.id, reason=Reason.STOPPING, info=info))
                runner.let_go()

    def forget(self, runner: RoomRunner) -> None:
        """Remove a room that has ended or belongs to another server now."""
        room, listing = runner.room, runner.context.listing
        for player_id in [*(seat.player_id for seat in runner.seats), *runner.seats.reservations]:
            self._of_player.remove(player_id, runner)
        self._quota.give_back(room.id)
        if self._runners.pop(room.id, None) is not None:
            self._context.counters.rooms_ended += 1
            self.index.remove(runner)
            if listing.is_over:
                info = runner.entry.info(sees_code=True)
                self.names.remove(listing, info)
                self._unclaim(room, listing)
                public = replace(info, code="")
                self._publish(RoomEnded(room=room.id, status=info.status, reason=info.reason, info=public))
            else:
                self.names.forget(room.id, listing)
        if self._all_forgotten is not None and not self._all_forgotten.done() and self._is_all_durable():
            self._all_forgotten.set_result(None)

    def _unclaim(self, room: Room[Any], listing: RoomListing) -> None:
        if self.claims is not None and listing.creation_key is not None:
            self.claims.room_ended(listing.creation_key, room.id)
        if self.claims is not None and room.unique_names and listing.name:
            self.claims.release_name(room.kind, listing.name, room.id)

    def _is_all_durable(self) -> bool:
        return not self._beginning and all(runner.persistence.survives_stop for runner in self._runners.values())

    # Listings

    def check_name(self, room: Room[Any], name: str | None) -> None:
        """Refuse a name that another room of the kind has, if names of the kind are unique."""
        if name is not None and room.unique_names:
            self.names.check_name(room.kind, name, room.id)

    def update(self, runner: RoomRunner, request: Update) -> None:
        """The game changes the entry of its room: at once, unless a new name has to be claimed on all nodes before."""
        waiting = self._updates.get(runner)
        if waiting is None and not self._must_claim(runner, request.name):
            runner.follow(runner.apply_update, request)
        elif waiting is None:
            waiting = self._updates[runner] = deque([request])
            task = self._loop.create_task(self._update_all(runner, waiting))
            self._updating.add(task)
            task.add_done_callback(self._updating.discard)
        elif len(waiting) < self._limits.turns_waiting_max:
            # In the order in which the game has said so.
            waiting.append(request)
        else:
            runner.failed(Throttled("too many updates wait for a name"), "update")

    async def _update_all(self, runner: RoomRunner, waiting: deque[Update]) -> None:
        try:
            while waiting:
                request = waiting.popleft()
                try:
                    async with self.renaming(runner, request.name):
                        await runner.call(runner.apply_update, request)
                except Refused as refusal:
                    if runner.room.id in self._runners:
                        runner.failed(refusal, "update")
        finally:
            del self._updates[runner]

    def _must_claim(self, runner: RoomRunner, name: str | None) -> bool:
        is_new = name is not None and name != runner.context.listing.name
        return is_new and self.claims is not None and runner.room.unique_names

    def updated(self, room: Room[Any], request: Update) -> None:
        """The listing of a room was changed by this request."""
        if request.password:
            self.passwords.prove(context_of(room).listing, request.password)
        self.renamed(room)

    @asynccontextmanager
    async def renaming(self, runner: RoomRunner, name: str | None) -> AsyncIterator[None]:
        """While a room gets this name, no other node's room can get it; None: it keeps its name."""
        claims, room, listing = self.claims, runner.room, runner.context.listing
        old = listing.name
        if claims is None or name is None or not self._must_claim(runner, name):
            yield
            return
        try:
            if name:
                await claims.claim_name(room.kind, name, room.id)
            yield
        finally:
            claims.settled(room.id)
            for unused in {old, name} - {listing.name, ""}:
                claims.release_name(room.kind, unused, room.id)

    def renamed(self, room: Room[Any]) -> None:
        """The room has a new name."""
        if room.unique_names:
            self.names.name(room.kind, context_of(room).listing.name, room.id)

    def code_is_used(self, code: str, by: RoomInfo) -> None:
        """A room of another node has this code: if it is older than the one that has it here, that gets another."""
        runner = self._runners.get(self.names.coded(code) or "")
        if runner is None or runner.id == by.id:
            return
        if (by.created_at, by.id) < (runner.context.listing.created_at, runner.id):
            runner.follow(self._change_code, runner)

    def _change_code(self, runner: RoomRunner) -> None:
        self.names.recode(runner.id, runner.context.listing)
        runner.context.entry_changed()

    # Players and their seats

    def rooms_of(self, player_id: str) -> list[RoomRunner]:
        """The rooms in which a player has a seat or a reservation."""
        self._stored.restore_of_player(player_id)
        return list(self._of_player.all(player_id))

    def players(self) -> list[str]:
        """All players with a seat or a reservation."""
        return list(self._of_player)

    def name_of(self, player_id: str) -> str:
        """A player's display name: that of the newest session, or empty."""
        return self._sessions.name_of(player_id)

    def seat_changed(self, runner: RoomRunner, player_id: str, state: SeatState) -> None:
        """The state of a seat has changed."""
        if state not in {SeatState.FREED, SeatState.EXPIRED}:
            seat = runner.seats.of(player_id)
            # A room's own agents are not found by player: every room may have a "bot".
            if (seat is None or not seat.agent) and runner not in self._of_player.all(player_id):
                self._of_player.add(player_id, runner)
        elif runner.seats.of(player_id) is None:
            # Otherwise the player still has another seat, in a room that allows several.
            self._of_player.remove(player_id, runner)
        self.index.touch(runner)
        name = self.name_of(player_id)
        self._publish(_SEAT_EVENTS[state](room=runner.id, player=player_id, player_name=name))

    def session_dropped(self, session: Session) -> None:
        """A session lost its connection: its seat, and its place as a spectator, is held or freed."""
        for seat in (session.seat, session.place):
            if seat is not None:
                seat.room.dropped(seat)

    def session_returned(self, session: Session, lost: Collection[Channel]) -> None:
        """A session is connected again: its player is back on the seat. The streams of the `lost` channels restart."""
        for seat in (session.seat, session.place):
            if seat is None or seat.state is not SeatState.HELD:
                continue
            channel = session.channel_for(seat.purpose)
            if session.state is SessionState.CONNECTED:
                seat.room.returned(seat, channel in lost)
            elif channel is not None and channel in lost:
                # The first of the two rooms ended the session, or its connection, when it heard of it: the state comes
                # with the next resume.
                channel.give_up()

    def session_switches(self, session: Session, switch: Switch) -> None:
        """The connection of a session that has come from another node is about to follow, does so, or does not."""
        for seat in (session.seat, session.place):
            if seat is not None and seat.state is SeatState.HELD:
                seat.room.switches(seat, switch)

    def session_ended(self, session: Session, reason: Reason, message: str) -> None:
        for seat in (session.seat, session.place):
            if seat is None:
                continue
            if reason is Reason.BYE:
                seat.room.leave(seat)
            else:
                seat.room.free(seat, reason, message)
        if self.reserved.is_interested(session.player_id):
            self._presence.check(session.player_id)

    def player_gone(self, player_id: str) -> None:
        """Without a session, the seats that a player has reserved are freed, except those of a placement."""
        for room_id in self.reserved.rooms(player_id):
            if (runner := self._runners.get(room_id)) is not None:
                runner.reservations.maker_gone(player_id)
