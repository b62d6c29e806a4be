"""What becomes of a client that says more than its session may: told, slowed down, refused, cut off (`core.flood`)."""

from collections.abc import Callable

from holdfast.core.flood import Step
from holdfast.core.reasons import Reason
from holdfast.core.session import Place
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
        """`pause` stops reading a client for a while, `failed` counts against its address."""
        self._now = context.clock.now
        self._limits = context.limits
        self._counters = context.counters
        self._alarms = context.alarms
        self._pause = pause
        self._failed = failed

    def allows_latest(self, connection: LiveConnection) -> bool:
        """Whether an unreliable message may be carried out."""
        assert connection.session is not None
        assert connection.session.flood is not None
        if connection.session.flood.latest.take(connection.heard_at):
            return True
        is_carried_out = self.over(connection, "latest_per_s") == "warn"
        self._counters.latest_throttled += not is_carried_out
        return is_carried_out

    def allows_request(self, connection: LiveConnection) -> bool:
        """Whether a request may be carried out."""
        assert connection.session is not None
        assert connection.session.flood is not None
        if connection.session.flood.requests.take(connection.heard_at):
            return True
        is_carried_out = self.over(connection, "requests_per_s") == "warn"
        self._counters.requests_throttled += not is_carried_out
        return is_carried_out

    def over(self, connection: LiveConnection, limit: str) -> Step:
        """Something was beyond its allowance: what becomes of it. With "disconnect", the connection is closed."""
        if connection.session is None:
            self.cut_off(connection, limit)
            return "disconnect"
        step = self._step(connection)
        self._act(connection, limit, step)
        return step

    def over_message(self, connection: LiveConnection, place: Place, frame: Data) -> bool:
        """A reliable message was; False if it is to be carried out all the same."""
        step = self._step(connection)
        if step != "warn":
            # Also before the end: it was accepted, and a client that comes back will not send it again.
            self._counters.messages_throttled += 1
            place.runner.refuse(place, frame)
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
                # What it says meanwhile waits in its own buffers: to read and refuse it would cost us more than it.
                self._pause(connection, self._limits.flood_pause_s)
            case "disconnect":
                self.cut_off(connection, limit)

    def cut_off(self, connection: LiveConnection, limit: str) -> None:
        """It is far too much, whatever the policy: the connection ends, and its session may come back later."""
        session = connection.session
        self._tell(connection, limit, "disconnected")
        if session is None:
            connection.close(Reason.FLOODING, "too much before a hello", retry_after_s=self._limits.hello_s)
            return
        assert session.flood is not None
        session.flood.bar(self._now())
        self._counters.floods += 1
        self._failed(connection)
        wait_s = self._limits.retry_after_max_s
        connection.close(Reason.FLOODING, f"too much at once ({limit})", retry_after_s=wait_s)

    def _tell(self, connection: LiveConnection, limit: str, action: str) -> None:
        session = connection.session
        player_id = session.player_id if session is not None else ""
        session_id = session.id if session is not None else ""
        self._alarms.tell(limit, action, address=connection.address, session=session_id, player=player_id)
