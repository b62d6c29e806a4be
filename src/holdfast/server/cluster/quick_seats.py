"""`join_or_create` in a cluster: one node finds or makes the room for all players who ask for the same.

    the player's node → the node that decides, by a hash of kind and search → looks through the rooms of all nodes, the
    oldest first; the node of each keeps a seat, or refuses → if none has one: the player's node makes a room, and those
    who ask meanwhile get a seat in that one → the session goes to the room

Only the node of a room gives its seats. If two nodes think that they decide, there is a room too many, and never a seat
too many.
"""

from collections import Counter
from contextlib import suppress
from functools import partial
from random import Random

from holdfast.cluster.rendezvous import next_owner
from holdfast.core.errors import NotFound, Refused, RoomFull, Throttled, refusal
from holdfast.core.limits import Limits
from holdfast.core.listed_room import check_open, check_role
from holdfast.core.session import PlayerId, Session
from holdfast.core.tokens import printable
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, JoinOrCreate
from holdfast.schemas.rows import NumberedRow
from holdfast.schemas.shared import KeepSeats, MakeRoom, Newcomer, RoomMade, SeatAsked, Seated, SeatsKept
from holdfast.search import parse_query
from holdfast.server.cluster.asking import Asking, Gone, Repeats
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.players import Players
from holdfast.server.cluster.rows import RowListener, RowTeller
from holdfast.server.context import Clock
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.rooms_to_be import RoomsToBe
from holdfast.server.rooms.runner import RoomRunner

_SEAT, _KEEP, _MAKE = "find_seat", "keep_seats", "make_room"
_ID_BYTES = 9
# A game may fill each of its rooms itself.
_TRIES_MAX = 3


class QuickSeats:
    """Finds seats for the players of all nodes, and keeps those of this node's rooms."""

    def __init__(
        self,
        node: ClusterNode,
        asking: Asking,
        players: Players,
        repeats: Repeats,
        *,
        clock: Clock,
        limits: Limits,
        random: Random,
        rooms: Directory,
        teller: RowTeller,
        listener: RowListener,
    ) -> None:
        self._node = node
        self._asking = asking
        self._players = players
        self._clock = clock
        self._limits = limits
        self._random = random
        self._rooms = rooms
        self._teller = teller
        self._listener = listener
        self._to_be: RoomsToBe[str] = RoomsToBe(clock, self._keep_in)
        # Seats that are being asked for, by room.
        self._under_way: Counter[str] = Counter()
        self._repeats = repeats
        self._patience_s = 2 * limits.activation_s
        asking.answer(_SEAT, SeatAsked, self._asked)
        asking.answer(_KEEP, KeepSeats, self._keep)
        asking.answer(_MAKE, MakeRoom, self._asked_to_make)

    def stop(self) -> None:
        self._to_be.stop()

    # On the player's node

    async def own(self, player_id: PlayerId, kind: str) -> str:
        """The id of a room of this kind on another node in which the player has a seat, or has reserved one; or ""."""
        elsewhere = await self._players.elsewhere(player_id, seats=True)
        return next((seat.room.id for seat in elsewhere.seats if seat.is_own and seat.room.kind == kind), "")

    async def find(self, session: Session, request: JoinOrCreate) -> str:
        """The id of a room with a seat for this player, on whichever node it is."""
        asked = SeatAsked(
            printable(self._random.randbytes(_ID_BYTES)),
            self._node.life,
            session.player_id,
            session.address,
            sorted(session.roles),
            request,
        )
        while True:
            try:
                found = await self._asking.ask(self._decider(request), _SEAT, asked, Seated, within_s=self._patience_s)
            except Gone:
                # A seat that it has found is kept for a while, and is found as the player's own.
                continue
            return found.room

    def _decider(self, request: JoinOrCreate) -> str:
        able = self._node.able(request.kind)
        return next_owner(f"{request.kind}\0{request.where}", able) or self._node.life

    # On the node that decides

    async def _asked(self, asked: SeatAsked) -> Seated:
        return await self._repeats.once(
            f"{_SEAT} {asked.id}", lambda: self._find(asked), player=asked.player, address=asked.address
        )

    async def _find(self, asked: SeatAsked) -> Seated:
        request, guest = asked.request, Newcomer(asked.player, asked.roles)
        wanted = parse_query(request.where, (), kind=request.kind)
        seats = request.max_players or self._rooms.kind_for(request).max_players
        tries = _TRIES_MAX
        refused: dict[str, Refused] = {}
        while True:
            async for row in self._rooms.index.open_rows(wanted):
                # Those who are about to have one of its seats are not listed yet.
                if row.id not in refused and row.open_seats > self._under_way[row.id]:
                    kept = await self._keep_in(row.id, [guest])
                    if guest.player not in kept:
                        return Seated(row.id)
                    refused |= {row.id: kept[guest.player]}
            # There was no `await` since the search: no seat is listed anywhere at this moment.
            making = self._to_be.suitable(wanted)
            if making is None:
                making = self._to_be.begin(guest.player, request, seats, partial(self._made, asked))
            try:
                room_id = await self._to_be.join(making, guest, request)
            except (RoomFull, NotFound):
                # Its node has gone with it; or with a key, others were quicker to come to it than its creator.
                tries -= 1
                if tries == 0:
                    raise
                continue
            if room_id is not None:
                return Seated(room_id)

    async def _keep_in(self, room_id: str, guests: list[Newcomer]) -> dict[str, Refused]:
        """Ask the node of a room to keep seats; returns who gets none, and why."""
        runner, remote = self._rooms.index.runner(room_id), self._rooms.index.remote.get(room_id)
        gone: Refused = NotFound(f"there is no room {room_id!r}; it may have ended")
        if runner is None and remote is None:
            return {guest.player: gone for guest in guests}
        life = self._node.life if runner is not None or remote is None else remote.life
        self._under_way[room_id] += len(guests)
        try:
            kept = await self._asking.ask(
                life, _KEEP, KeepSeats(room_id, guests), SeatsKept, within_s=self._limits.silent_s
            )
        except (Gone, Throttled):
            # If it has kept them after all, that ends by itself.
            return {guest.player: gone for guest in guests}
        finally:
            self._under_way[room_id] -= len(guests)
            if not self._under_way[room_id]:
                del self._under_way[room_id]
        if kept.row is not None and life != self._node.life:
            self._listener.heard_row(life, kept.row)
        return {player: refusal(code, message) for player, (code, message) in kept.refused.items()}

    async def list_room(self, life: str, room_id: str) -> None:
        """List a room of another node here, as it is now."""
        if life == self._node.life or self._rooms.index.remote.get(room_id) is not None:
            return
        with suppress(Gone, Throttled):
            kept = await self._asking.ask(
                life, _KEEP, KeepSeats(room_id, []), SeatsKept, within_s=self._limits.silent_s
            )
            if kept.row is not None:
                self._listener.heard_row(life, kept.row)

    async def _made(self, asked: SeatAsked) -> str:
        made = await self._made_somewhere(asked)
        assert made.row is not None
        if made.life != self._node.life:
            self._listener.heard_row(made.life, made.row)
        return made.row.row.info.id

    async def _made_somewhere(self, asked: SeatAsked) -> RoomMade:
        """A new room: on the player's own node, or on the least loaded one that takes it."""
        why = Throttled("no node of the cluster can make such a room now; try again later")
        for number, life in enumerate(self._candidates(asked)):
            question = MakeRoom(f"{asked.id}.{number}", asked.player, asked.address, asked.roles, asked.request)
            try:
                made = await self._asking.ask(life, _MAKE, question, RoomMade, within_s=self._patience_s)
            except Gone:
                continue
            if made.row is not None:
                return made
            why = Throttled(made.why_not)
        raise why

    def _candidates(self, asked: SeatAsked) -> list[str]:
        able = self._node.able_by_load(asked.request.kind)
        return [asked.life, *(each for each in able if each != asked.life)] if asked.life in able else able

    # On the node of a room

    def _keep(self, asked: KeepSeats) -> SeatsKept:
        runner = self._rooms.index.runner(asked.room)
        if runner is None:
            return SeatsKept({guest.player: ("not_found", "this room is not here") for guest in asked.guests})
        refused: dict[str, tuple[str, str]] = {}
        for guest in asked.guests:
            try:
                _keep_one(runner, guest)
            except Refused as why:
                refused[guest.player] = (why.code, str(why))
        return SeatsKept(refused, self._teller.row(asked.room))

    async def _asked_to_make(self, asked: MakeRoom) -> RoomMade:
        return await self._repeats.once(
            f"{_MAKE} {asked.id}", lambda: self._make_here(asked), player=asked.player, address=asked.address
        )

    async def _make_here(self, asked: MakeRoom) -> RoomMade:
        if why_not := self._rooms.why_not_taken(asked.request.kind, 1):
            return RoomMade(self._node.life, None, why_not)
        self._rooms.check_role(asked.request.kind, asked.roles)
        request = project(asked.request, Create, message_version="")
        try:
            runner = await self._rooms.create(request, asked.player, address=asked.address)
        except NotFound as missing:
            # With an idempotency key: another node has it.
            remote = self._rooms.index.remote.get(missing.room_id)
            if remote is None:
                raise
            return RoomMade(remote.life, NumberedRow(remote.number, remote.row))
        # At once: until the answer has arrived, the others find the room.
        with suppress(Refused):
            _keep_one(runner, Newcomer(asked.player, asked.roles))
        row = self._teller.row(runner.room.id)
        if row is None:
            raise NotFound("the room closed as soon as it had started")
        return RoomMade(self._node.life, row)


def _keep_one(runner: RoomRunner, guest: Newcomer) -> None:
    check_role(runner.room.join_role, guest.roles, f"a seat in rooms of the kind {runner.room.kind!r}")
    check_open(runner.room, PlayerId(guest.player))
    runner.reservations.reserve_own(PlayerId(guest.player))
