"""What a room shares, as one of its players or spectators has it."""

from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypedDict

import msgspec

from holdfast.client.channels import ChannelOpened
from holdfast.client.exchange import Exchange
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.logs import get_logger
from holdfast.schemas.requests import WholeView
from holdfast.state import Mirror, NotANode, OutOfSync

log = get_logger("holdfast.client")

# A slow reader may have some.
_WAITING_MAX = 100


class SharedTypes(TypedDict, total=False):
    """The types of what a room shares; without one, or with None, it is read as plain data."""

    state: Any
    """Of `room.state`, as in `state=Board`."""
    data: Any
    """Of each player's data, in `room.players` and `room.mine`."""


class SharedState:
    """A mirror of what the room shares, and how to get it back if it is lost. It may be read in any thread."""

    def __init__(self, exchange: Exchange, opened: ChannelOpened, types: SharedTypes) -> None:
        self.types = types
        self.due: deque[Callable[[], object]] | None = None
        """Where the calls of listeners wait, if they are not for the session's own thread."""
        self._exchange = exchange
        self._opened = opened
        self._lock = Lock()
        self._mirror = Mirror()
        # Of a saved session only messages are kept.
        self._is_lost = exchange.protocol.channels.is_sharing(opened.channel)
        self._is_asked_for = False
        self._is_warned = False

    def use(self, types: SharedTypes) -> None:
        """Read it as these types; of those not given, as before."""
        self.types = SharedTypes(
            state=types.get("state") or self.types.get("state"), data=types.get("data") or self.types.get("data")
        )

    def copy_for_threads(self) -> None:
        """From now on, what is read shares nothing with what changes here."""
        self._mirror.copies = True

    # Reading

    @property
    def state(self) -> Any:
        return self._read("state", kind=self.types.get("state"))

    @property
    def players(self) -> Mapping[str, Any]:
        with self._lock:
            players = self._mirror.root.get("players") if self._mirror.is_complete else None
            ids = list(players) if isinstance(players, dict) else []
        kind = self.types.get("data")
        return {each: data for each in ids if (data := self._read("players", each, kind=kind)) is not None}

    @property
    def mine(self) -> Any:
        kind = self.types.get("data")
        # Without private fields, what is the player's own is what everybody sees of it.
        mine = self._read("mine", kind=kind)
        return mine if mine is not None else self._read("players", self._exchange.protocol.player_id, kind=kind)

    def _read(self, *path: str, kind: Any) -> Any:
        with self._lock:
            if not self._mirror.is_complete:
                return None
            try:
                return self._mirror.read(*path, kind=Any if kind is None else kind)
            except KeyError:
                return None
            except msgspec.ValidationError as error:
                name = getattr(kind, "__name__", kind)
                raise Invalid(f"what the room shares as {'.'.join(path)!r} is no {name}: {error}") from None

    # Listening

    def on_change(self, path: str, listener: Callable[..., object] | None) -> Callable[[], None]:
        if not callable(listener):
            raise TypeError(f"a listener is a function; got {listener!r}")
        with self._lock:
            undo = self._mirror.on_change(path, self._typed(path, listener))
            if path.split(".", 1)[0] != "mine":
                return undo
            undo_public = self._mirror.on_change("players.*" + path.removeprefix("mine"), self._mine_of(path, listener))
        return lambda: (undo(), undo_public())[0]

    def _mine_of(self, path: str, listener: Callable[..., object]) -> Callable[..., object]:
        """A listener to players' data, for the player's own where that has nothing private."""
        typed = self._typed(path, listener)

        def heard(value: Any, player: str, *keys: Any) -> None:
            if player == self._exchange.protocol.player_id and "mine" not in self._mirror.root:
                typed(value, *keys)

        return heard

    def _typed(self, path: str, listener: Callable[..., object]) -> Callable[..., object]:
        """A listener that is called with what the room's attributes have."""
        match path:
            case "state":
                return lambda _: listener(self.state)
            case "players.*":
                return lambda _, player: listener(self._read("players", player, kind=self.types.get("data")), player)
            case "mine":
                return lambda _: listener(self.mine)
            case _:
                return listener

    def wait_for_reader(self) -> None:
        """From now on, listeners are called by `tell` only."""
        self.due = deque() if self.due is None else self.due

    def tell(self) -> None:
        """Call the listeners that are due, in this thread."""
        due = self.due or ()
        while due:
            _call(due.popleft())

    # Following

    def receive(self, body: Any) -> None:
        """Apply a change, in the order of messages, and call its listeners."""
        try:
            with self._lock:
                calls = self._mirror.receive(body)
        except (NotANode, OutOfSync) as error:
            if not self._is_lost:
                log.warning("the state of a room is lost; asking for it again", room=self._opened.room, error=error)
            self._is_lost = True
            self.ask_if_lost()
            return
        if self._mirror.is_complete:
            self._is_lost = self._is_asked_for = False
            protocol = self._exchange.protocol
            protocol.is_changed |= protocol.channels.shares(self._opened.channel)
        if self.due is not None:
            self.due.extend(calls)
            return
        for call in calls:
            _call(call)

    def waits(self, changes: int) -> None:
        """So many changes wait for messages before them: say so once, if nobody seems to read those."""
        usual_max = min(_WAITING_MAX, self._exchange.protocol.limits.window_messages_max // 2)
        if changes > usual_max and not self._is_warned:
            self._is_warned = True
            what = "ask for the next one, or call room.acknowledge()"
            log.warning("the state of a room waits for messages before it", room=self._opened.room, hint=what)

    def restarted(self) -> None:
        """The stream begins again, and with it the whole view comes by itself."""
        self._is_lost = False

    def ask_if_lost(self) -> None:
        """Ask for the whole view, once for each that is missing."""
        channel = self._opened.channel
        if self._is_lost and not self._is_asked_for and self._exchange.protocol.channels.is_newest(channel):
            self._is_asked_for = True
            request = WholeView("spectator" if self._opened.purpose == "spectator" else "seat")
            self._exchange.post(request, channel, self._answered)

    def _answered(self, _: Any, error: HoldfastError | None) -> None:
        if error is not None:
            log.warning("the state of a room stays lost", room=self._opened.room, error=error)


def _call(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        log.exception("a listener failed")
