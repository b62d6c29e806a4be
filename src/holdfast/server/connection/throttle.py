"""Clients over their rate limits: warned, slowed down, refused, disconnected (`core.flood`)."""

from collections.abc import Callable

from holdfast.core.rates import Step
from holdfast.core.reasons import Reason
from holdfast.core.session import Seat
from holdfast.schemas.frames import Data
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Context


class Throttle:
    """The rare path: `LiveConnection` comes here only when an allowance is used up."""

    def __init__(
        self,
        context: Context,
        *,
        pause: Callable[[LiveConnection, float], None],
        failed: Callable[[LiveConnection], None],
    ) -> None:
        """`pause` stops reading from a client for a while, `failed` counts against its address."""
        self._now = context.clock.now
        self._limits = context.limits
        self._counters = context.counters
        self._alarms = context.alarms
        self._pause = pause
        self._failed = failed

    def allows_latest(self, connection: LiveConnection) -> bool:
        assert connection.session is not None
        assert connection.session.flood is not None
        if connection.session.flood.latest.take(connection.heard_at):
            return True
        is_carried_out = self.over(connection, "latest_per_s") == "warn"
        self._counters.latest_throttled += not is_carried_out
        return is_carried_out

    def allows_request(self, connection: LiveConnection) -> bool:
        assert connection.session is not None
        assert connection.session.flood is not None
        if connection.session.flood.requests.take(connection.heard_at):
            return True
        is_carried_out = self.over(connection, "requests_per_s") == "warn"
        self._counters.requests_throttled += not is_carried_out
        return is_carried_out

    def over(self, connection: LiveConnection, limit: str) -> Step:
        """Something exceeded its allowance: returns the step to take. With "disconnect", the connection is closed."""
        if connection.session is None:
            self.cut_off(connection, limit)
            return "disconnect"
        step = self._step(connection)
        self._act(connection, limit, step)
        return step

    def over_message(self, connection: LiveConnection, seat: Seat, frame: Data) -> bool:
        """A reliable message exceeded its allowance; False if it is carried out nevertheless."""
        step = self._step(connection)
        if step != "warn":
            # Also before a disconnect: the message was accepted, and a returning client will not send it again.
            self._counters.messages_throttled += 1
            seat.room.refuse(seat, frame)
        self._act(connection, "messages_per_s", step)
        return step != "warn"

    def _step(self, connection: LiveConnection) -> Step:
        session = connection.session
        assert session is not None
        assert session.flood is not None
        return session.flood.over(self._now())

    def _act(self, connection: LiveConnection, limit: str, step: Step) -> None:
        match step:
            case "warn":
                self._tell(connection, limit, "warned")
            case "drop":
                self._tell(connection, limit, "dropped")
                # Further data waits in the client's own buffers: reading and refusing it would cost us more than the
                # client.
                self._pause(connection, self._limits.flood_pause_s)
            case "disconnect":
                self.cut_off(connection, limit)

    def cut_off(self, connection: LiveConnection, limit: str) -> None:
        """Far over the limit, whatever the policy: close the connection; its session may return later."""
        session = connection.session
        self._tell(connection, limit, "disconnected")
        if session is None:
            connection.close(Reason.FLOODING, "too much data before a hello", retry_after_s=self._limits.hello_s)
            return
        assert session.flood is not None
        session.flood.bar(self._now())
        self._counters.floods += 1
        self._failed(connection)
        wait_s = self._limits.retry_after_max_s
        connection.close(Reason.FLOODING, f"too much data at once ({limit})", retry_after_s=wait_s)

    def _tell(self, connection: LiveConnection, limit: str, action: str) -> None:
        session = connection.session
        player_id = session.player_id if session is not None else ""
        session_id = session.id if session is not None else ""
        self._alarms.report(limit, action, address=connection.address, session=session_id, player=player_id)
