"""The half of a room's host that deals with seats: who takes one, is away from it, comes back to it, loses it.

A seat is freed at once; the hooks that follow from it take their turn. Whatever a game's code raises is logged with
ids, counted, and harms nothing but the turn it was raised in.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import NotSeated
from holdfast.core.messages import RoomUpdated, SeatLeft
from holdfast.core.player import Outlet, Player, SeatEvent, SeatState
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.logs import get_logger
from holdfast.schemas.events import PlayerJoined, PlayerLeft
from holdfast.schemas.frames import sentence
from holdfast.server.directory.entry import Entry
from holdfast.server.rooms.joining import Door
from holdfast.server.rooms.saves import Saves
from holdfast.server.rooms.turns import RoomEnded, Turns

if TYPE_CHECKING:
    from holdfast.server.node import Node

log = get_logger("holdfast.server")

OutletOf = Callable[[Session], Outlet]


class SeatingHost:
    """What happens to the seats of one room. The rest of the host is a `RoomRunner`, which makes all of this."""

    room: Room[Any]
    door: Door
    entry: Entry
    was_joined: bool
    check_empty: Callable[[], None]
    has_read: Callable[[Player[Any]], None]
    let_finish: Callable[[Player[Any]], None]
    _resyncs: dict[Player[Any], int]
    """How many turns of `on_resync` wait for each player."""
    _node: "Node"
    _turns: Turns
    _saves: Saves

    def has_joined(self, player: Player[Any]) -> bool:
        """Whether the room has heard of a player on one of its seats."""
        return self.door.has_joined(player)

    def reserve_seat(self, player: Player[Any]) -> None:
        """Keep a seat while it is decided whether the player may have it."""
        self.room.add_seat(player)
        self.check_empty()

    def seat(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> None:
        """The player may have it."""
        player.happened(SeatEvent.TAKEN)
        self.room.seats_changed()
        self.was_joined = True
        self._give_seat(player, session, outlet_of)
        self.seat_changed(player.id, player.seat)
        self._publish_joined(session)

    def _publish_joined(self, session: Session) -> None:
        room = self.room
        self._node.publish(PlayerJoined(session=session.id, player=session.player_id, room=room.id, kind=room.kind))

    def _publish_left(self, session: Session, reason: Reason, message: str) -> None:
        self._node.publish(
            PlayerLeft(
                session=session.id,
                player=session.player_id,
                room=self.room.id,
                reason=reason,
                message=sentence(message),
            )
        )

    def seat_changed(self, player_id: str, state: SeatState) -> None:
        """A seat is in another state: whoever watches the node hears of it."""
        raise NotImplementedError

    def _give_seat(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> None:
        player.session = session
        player.outlet = outlet_of(session)
        session.player = player
        session.room = self.room
        session.grace_s = self.room.grace_s

    def may_take_over(self, existing: Player[Any]) -> bool:
        """Whether the player may have their seat from another session of theirs."""
        # A held seat is its player's in any case: who lost the session, in a crash, signs in again and is back.
        policy = self.room.duplicate
        if policy == "takeover":
            return existing.seat is not SeatState.RESERVED
        return policy == "reject" and existing.seat is SeatState.HELD

    def take_over(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> Player[Any]:
        """The same player, by another session: the seat goes on there."""
        former = player.session
        self._unmute(player)
        message = "this player joined again from elsewhere"
        self._take_seat_away(former)
        player.outlet.finish(SeatLeft(Reason.SUPERSEDED, message))
        self._publish_left(former, Reason.SUPERSEDED, message)
        self._node.end_session(former, Reason.SUPERSEDED, message)
        self._give_seat(player, session, outlet_of)
        self._publish_joined(session)
        if player.seat is SeatState.TAKEN:
            self._hold(player)
        if player.seat is SeatState.FREED:
            raise NotSeated("the game freed the seat when it heard of the drop; join again")
        self.returned(player, is_resynced=True)
        return player

    def release(self, player: Player[Any]) -> None:
        """The player may not have the seat after all."""
        if player.seat is SeatState.RESERVED:
            player.happened(SeatEvent.FREED)
            self.room.remove_seat(player)
            self.check_empty()
            self._node.drain.look_at(self.room.id)

    def dropped(self, player: Player[Any]) -> None:
        """The player's connection is gone: hold the seat or free it, as the room's settings say."""
        if player.seat is not SeatState.TAKEN:
            return
        room = self.room
        if room.disconnect == "hard" or (room.phase == "lobby" and not room.keep_before_start):
            self.free(player, Reason.DROPPED)
        else:
            self._hold(player)

    def _hold(self, player: Player[Any]) -> None:
        player.happened(SeatEvent.DROPPED)
        self.seat_changed(player.id, player.seat)
        self._turns.take(self.room.on_drop, (player,), self._dropped, (player,))

    def _dropped(self, error: Exception | None, _: Any, player: Player[Any]) -> None:
        self._seat_hook_ended(error, None, player, "on_drop")
        self._saves.save(player)

    def returned(self, player: Player[Any], *, is_resynced: bool) -> None:
        """The player is back on their seat."""
        player.happened(SeatEvent.RETURNED)
        self.seat_changed(player.id, player.seat)
        if is_resynced:
            self._resyncs[player] = self._resyncs.get(player, 0) + 1
            if player.session.channel is not None:
                player.session.channel.mute()
            self._turns.take(self._resync, (player,), self._resynced, (player,))
        self._turns.take(self.room.on_rejoin, (player,), self._seat_hook_ended, (player, "on_rejoin"))
        self.has_read(player)

    def _resync(self, player: Player[Any]) -> Any:
        if self._resyncs.get(player, 0) > 1:
            # Their stream began anew once more, and is mute until the turn that belongs to that.
            return None
        self._unmute(player)
        return self.room.on_resync(player)

    def _resynced(self, error: Exception | None, _: Any, player: Player[Any]) -> None:
        self._seat_hook_ended(error, None, player, "on_resync")
        # What was said about the room itself may be among what could not be kept.
        player.outlet.send(RoomUpdated(self.entry.info(sees_code=True)))
        self._resyncs[player] = self._resyncs.get(player, 0) - 1
        if self._resyncs[player] <= 0:
            del self._resyncs[player]

    def _unmute(self, player: Player[Any]) -> None:
        if player in self._resyncs and player.session.channel is not None:
            player.session.channel.unmute()

    def free(self, player: Player[Any], reason: Reason, message: str = "") -> None:
        """The player is out, now; `on_leave` follows as a turn, and the stream's last message after it."""
        if player.seat is SeatState.RESERVED:
            self.release(player)
        if player.seat is SeatState.FREED:
            return
        player.happened(SeatEvent.FREED)
        self.room.remove_seat(player)
        self._turns.forget(player)
        # There is no state to come any more, only the farewell.
        self._unmute(player)
        self._resyncs.pop(player, None)
        self._take_seat_away(player.session)
        self.seat_changed(player.id, player.seat)
        self._publish_left(player.session, reason, message)
        if reason is not Reason.DROPPED:
            # Dropped in a room that holds no seats, they may be back before their session ends.
            self.door.maker_left(player.id)
        # Before the game hears of it: who has left is nobody's host, not even for the rest of this turn.
        self.entry.check_host()
        if self.door.forget(player):
            self._left(None, None, player, reason, message)
        else:
            self._turns.follow(self.room.on_leave, (player, reason), self._left, (player, reason, message))

    def leave(self, player: Player[Any]) -> None:
        """The player leaves on purpose: what they said before is applied before."""
        self.let_finish(player)
        self._turns.take(self.free, (player, Reason.LEFT))

    def _take_seat_away(self, session: Session) -> None:
        session.room = None
        session.player = None
        session.grace_s = self._node.grace_s
        session.close_channel()
        connection = self._node.connection_of(session)
        if connection is not None:
            connection.unseated()

    def _left(self, error: Exception | None, _: Any, player: Player[Any], reason: Reason, message: str) -> None:
        self._seat_hook_ended(error, None, player, "on_leave")
        self._saves.save(player)
        try:
            self.room.objects.orphan(player, self.room.orphans, self.room.heir)
        except Exception as raised:  # noqa: BLE001 - `heir` is the game's code
            self.failed(raised, "heir", player.id)
        player.outlet.finish(SeatLeft(reason, sentence(message)))
        self.check_empty()

    def kick(self, player: Player[Any], message: str) -> None:
        """Remove a player; they are told why."""
        self.free(player, Reason.KICKED, message)

    # Failures

    def _hook_ended(self, error: Exception | None, _: Any, name: str) -> None:
        if error is not None:
            self.failed(error, name)

    def _seat_hook_ended(self, error: Exception | None, _: Any, player: Player[Any], name: str) -> None:
        # The player is here for `Turns.forget`: of a seat that is freed, nothing more is told than `on_leave`.
        if error is not None:
            self.failed(error, name, player.id)

    def failed(self, error: Exception, where: str, player_id: str = "") -> None:
        """The game's code raised: it harms nothing but its turn."""
        if isinstance(error, RoomEnded):
            return
        self._node.counters.turns_failed += 1
        kind = self.room.kind
        self._node.faults.on_error(
            error, f"{where} of {kind} {self.room.id}" + (f", player {player_id}" if player_id else "")
        )
        if self._node.lines.allow(f"{where} of {kind}"):
            ids = {"player": player_id} if player_id else {}
            log.error("the game's code failed", where=where, room=self.room.id, kind=kind, **ids, exc_info=error)
