"""What a room shares with its clients: after each turn what has changed, and then what the turn has said.

Each client has a view: what was noted of the room at the end of a turn. One that is away, or has a window to read, is
written no changes: it stays behind, and later gets all changes since its view at once. Before a message that must be
written to it meanwhile, it gets the changes up to then. So whoever handles a message sees the state of the end of its
turn, and nobody costs a pile of changes.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from holdfast.core.block import Entry
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Seat, SeatState, Session
from holdfast.schemas.frames import FOLLOWS_STATE
from holdfast.server.context import Context
from holdfast.server.rooms.delivery import Failure
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.shared_plan import RoomPlan
from holdfast.server.rooms.shared_views import FailedBefore, HookFailed, Seen, SharedViews
from holdfast.server.rooms.turn_buffer import ClientBuffer, TurnBuffer
from holdfast.state import Unshareable

# How many views of a room are kept for clients that are behind; one whose view is forgotten gets the whole view.
_VIEWS_MAX = 4
# A root and its field.
_LOGGED_STEPS = 2
# Enum members are slow to look up, and this one is needed for every client.
_FREED = SeatState.FREED


def _without_secrets(error: Unshareable) -> Unshareable:
    """Of what one player sees, the log names the field: what is in it, and a key of a dict, is a secret."""
    return Unshareable(error.problem, error.path[:_LOGGED_STEPS])


@dataclass(frozen=True, slots=True)
class Step:
    """What most clients are written in one sync: they see the same, and have the same."""

    codec: Codec | None
    old: Seen
    new: Seen
    messages: list[Entry]


class StateFollower:
    """One client that follows the state."""

    __slots__ = (
        *("_seat", "_sharing", "buffer", "channel", "is_behind", "is_parting", "outlet", "seen", "session", "write"),
    )

    def __init__(self, sharing: "Sharing", buffer: ClientBuffer, session: Session) -> None:
        self._sharing = sharing
        self.buffer = buffer
        self.outlet = buffer.outlet
        self.write = buffer.outlet.write
        self.channel = buffer.outlet.channel
        self.session = session
        self._seat: Seat | None = None
        self.seen: Seen | None = None
        """What it has once it has read everything; None: it needs the whole view."""
        self.is_behind = True
        """Whether it was written no changes, because it could not read them."""
        self.is_parting = False
        """Whether the present turn frees its seat: what that turn changes is the last that it sees."""

    def catch_up(self) -> None:
        self._sharing.catch_up(self)

    def restart(self) -> None:
        self.seen = None
        self.is_behind = True

    def part(self) -> None:
        self._sharing.remove(self.outlet)

    def parts_with(self, seat: Seat) -> None:
        """Remember the seat, which the session does not have any more when the turn ends."""
        self._seat = seat

    @property
    def seat(self) -> Seat | None:
        """Its seat or place, also when that is freed: what the turn has said before is still to be heard.

        None once the room was told that the player has left, for it may have forgotten them.
        """
        session = self.session
        # Nearly always it is a seat. This is asked for every client and turn.
        seat = session.seat if session.channel is self.channel else session.seat_on(self.channel)
        seat = self._seat = seat or self._seat
        if seat is None or (seat.state is _FREED and seat.purpose == "seat" and self.buffer.is_ending):
            return None
        return seat

    def can_read(self, seat: Seat) -> bool:
        """Whether it is at its seat, or loses it with the present turn, and has read most of what was written to it."""
        return (
            self.session.connection is not None
            and not seat.is_joining
            and (seat.state is not _FREED or self.is_parting)
            and not self.channel.overflowed
            and not self.outlet.is_full
        )


class Sharing:
    """Shares the state of one room with those who follow it."""

    def __init__(
        self,
        room: Room[Any],
        plan: RoomPlan,
        room_context: RoomContext,
        context: Context,
        buffer: TurnBuffer,
        failed: Failure,
    ) -> None:
        self._room = room
        self._clock = context.clock
        self._buffer = buffer
        self._turns = buffer.turns
        self._failed = failed
        self._views = SharedViews(room, plan, room_context, context.limits)
        self._followers: dict[ChannelOutlet, StateFollower] = {}
        self._newcomers: set[StateFollower] = set()
        self._parting: set[StateFollower] = set()
        self._synced_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._is_waiting = False
        """Whether turns have ended whose changes are for the timer."""
        self._is_still = False
        """Whether clients are written nothing more between two turns."""

    # Who follows

    def add(self, buffer: ClientBuffer, session: Session) -> None:
        """A seat or a place has this outlet, with its buffer, from now on."""
        follower = buffer.follower = self._followers[buffer.outlet] = StateFollower(self, buffer, session)
        buffer.outlet.is_following = True
        self._newcomers.add(follower)

    def remove(self, outlet: ChannelOutlet) -> None:
        follower = self._followers.pop(outlet, None)
        if follower is not None:
            self._newcomers.discard(follower)

    def parting(self, seat: Seat) -> None:
        """A seat is about to be freed: what has changed up to the end of this turn is the last that its client sees."""
        follower = self._follower_of(seat)
        if follower is None:
            return
        follower.parts_with(seat)
        if not follower.can_read(seat):
            return
        if self._turns.in_turn:
            follower.is_parting = True
            self._parting.add(follower)
        else:
            self.catch_up(follower)

    def has_read(self, seat: Seat) -> None:
        """A client has acknowledged something: it may be ready for what has changed."""
        follower = self._follower_of(seat)
        is_now = not self._turns.in_turn and not self._is_waiting and not self._is_still
        if follower is not None and is_now and follower.is_behind and follower.can_read(seat):
            self.catch_up(follower)

    def show_again(self, seat: Seat) -> None:
        """A client has lost its copy: it needs the whole view."""
        follower = self._follower_of(seat)
        if follower is not None:
            follower.restart()
            # A client that asks again and again has to read what it was sent before.
            if not self._turns.in_turn and not self._is_still and follower.can_read(seat):
                self.catch_up(follower)

    def _follower_of(self, seat: Seat) -> StateFollower | None:
        return self._followers.get(seat.outlet) if isinstance(seat.outlet, ChannelOutlet) else None

    def stop(self) -> None:
        """Write nothing more but what a turn that still runs has changed and said."""
        self._is_still = True
        if self._timer is not None:
            self._timer.cancel()

    def behind(self) -> tuple[int, int]:
        """How many clients are behind, and the size of what is kept of earlier states for them."""
        behind = [each.seen for each in self._followers.values() if each.is_behind]
        return len(behind), self._views.size_of(seen for seen in behind if seen is not None)

    # Turns

    def turn_over(self) -> None:
        """A turn has ended: write what has changed, and then what it has said."""
        now, period_s = self._clock.now(), self._period_s
        if self._buffer or now >= self._synced_at + period_s or self._ready_newcomers() or self._parting:
            self._sync(now)
            for follower in self._parting:
                follower.is_parting = False
            self._parting.clear()
            self._buffer.write()
            return
        self._is_waiting = True
        if self._timer is None:
            self._timer = self._clock.loop.call_later(self._synced_at + period_s - now, self._timer_ended)

    def _ready_newcomers(self) -> list[StateFollower]:
        """The clients that wait for their first view: they have nothing to show until then."""
        return [each for each in self._newcomers if (seat := each.seat) is not None and each.can_read(seat)]

    @property
    def _period_s(self) -> float:
        return 1.0 / self._room.sync_hz if self._room.sync_hz > 0 else 0.0

    def _timer_ended(self) -> None:
        self._timer = None
        # A turn that is half done writes at its end.
        if not self._turns.in_turn and not self._is_still:
            self._sync(self._clock.now())

    def _sync(self, now: float) -> None:
        self._synced_at = now
        self._look()
        has_behind = False
        step: Step | None = None
        for follower in list(self._followers.values()):
            if step is not None and _can_follow(follower, step):
                # As below, for nearly all clients of a room in which everybody sees the same.
                follower.seen = step.new
                for message in step.messages:
                    follower.write(message)
                continue
            seat = follower.seat
            if seat is not None and (follower.can_read(seat) or follower.buffer in self._buffer):
                step = self._write(follower, seat) or step
            else:
                follower.is_behind = True
                has_behind = has_behind or follower.seen is not None
        if has_behind:
            self._forget_old_views()

    def _look(self) -> None:
        """Note the room as it is now."""
        self._is_waiting = False
        try:
            self._views.look({(each.session.codec or MSGPACK).for_state for each in self._ready_newcomers()})
        except HookFailed as failure:
            self._hook_failed(failure, "")
        except Exception as error:  # noqa: BLE001 - the game's values may be anything
            self._failed(error, "its shared state", "")

    def _hook_failed(self, failure: HookFailed, player_id: str) -> None:
        assert isinstance(failure.__cause__, Exception)
        self._failed(failure.__cause__, failure.hook, player_id)

    def _forget_old_views(self) -> None:
        now = self._views.now
        seen = [follower.seen for follower in self._followers.values() if follower.seen is not None]
        behind = {each.view for each in seen if each.view is not now}
        if len(behind) <= _VIEWS_MAX:
            return
        kept = sorted(behind, key=lambda view: view.number)[-_VIEWS_MAX:]
        for follower in self._followers.values():
            if follower.seen is not None and follower.seen.view in behind and follower.seen.view not in kept:
                follower.seen = None

    # Writing

    def catch_up(self, follower: StateFollower) -> None:
        """Between two turns, write what has changed since the client's view."""
        if self._views.is_looking:
            raise RuntimeError("view, area and sees may not send messages")
        if self._is_waiting:
            self._look()
        if (seat := follower.seat) is not None:
            self._write(follower, seat)

    def _write(self, follower: StateFollower, seat: Seat) -> Step | None:
        """Write to one client what it does not have; how that was done, if others may see and have the same."""
        views, session, old = self._views, follower.session, follower.seen
        view = views.now
        if view is None:
            return None
        if old is None:
            self._newcomers.discard(follower)
        if FOLLOWS_STATE not in session.features:
            return None
        follower.is_behind = False
        messages: list[Entry] = []
        try:
            seen = views.seen_from(seat, view)
            if seen is not old:
                messages = views.messages(old, seen, (session.codec or MSGPACK).for_state)
        except FailedBefore:
            return None
        except Unshareable as error:
            where = "view" if views.has_view and error.path[:1] == ("state",) else "its shared state"
            self._failed(_without_secrets(error), where, seat.player_id)
            return None
        except HookFailed as failure:
            self._hook_failed(failure, seat.player_id)
            return None
        except Exception as error:  # noqa: BLE001 - the game's values may be anything
            self._failed(error, "its shared state", seat.player_id)
            return None
        follower.seen = seen
        for message in messages:
            follower.write(message)
        return Step(session.codec, old, seen, messages) if views.is_common and old is not None else None


def _can_follow(follower: StateFollower, step: Step) -> bool:
    """Whether a client goes the same way, and reads: as `can_read` says, in one call for each client."""
    session, channel = follower.session, follower.channel
    return (
        follower.seen is step.old
        and not follower.is_behind
        and session.channel is channel
        and session.codec is step.codec
        and session.connection is not None
        and (seat := session.seat) is not None
        and not seat.is_joining
        and not channel.overflowed
        and channel.kept_bytes < channel.window_bytes_max
        and channel.last_seq - channel.acked < channel.window_messages_max
        and channel.acked >= channel.filled_to
    )
