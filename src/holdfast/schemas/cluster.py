"""What the nodes of a cluster say to each other, besides beats and relayed clients."""

from typing import Any

from msgspec import Struct

from holdfast.schemas.node import EventInfo


class Question(Struct, frozen=True, array_like=True):
    """What one node asks another. Fields are only ever added, with defaults: nodes of two versions hear each other."""

    name: str
    body: bytes
    """In MessagePack, as that of a reply."""


class NodeReply(Struct, frozen=True, array_like=True):
    """The answer, or why there is none."""

    body: bytes = b""
    code: str = ""
    """Of a refusal; "unknown_question" if the other node, of another version, does not know such questions."""
    message: str = ""


class Whereabouts(Struct, frozen=True, array_like=True):
    """Which of these sessions and rooms do you have?"""

    sessions: list[str] = []
    rooms: list[str] = []
    codes: list[str] = []
    """Codes of rooms."""


class Present(Struct, frozen=True, array_like=True):
    """These are here; a room that was asked for by its code has its id."""

    sessions: list[str] = []
    rooms: list[str] = []
    codes: dict[str, str] = {}
    expected: list[str] = []
    """Those of the sessions that have come without their connection: if another node has one too, it is that one's."""


class SessionHandover(Struct, frozen=True, array_like=True):
    """A session without a seat goes to another node, with its connection."""

    session: str
    record: bytes
    """As it would be saved."""
    revision: int
    """Of its record in the store; 0 if it has none."""
    sent: dict[int, int]
    """By the number of each channel: what was sent on it so far."""
    requests: list[tuple[int, str, bytes]]
    """Requests that are not answered yet: id, operation and arguments, as the client has encoded them."""
    hops: int = 0
    """How often it was handed over for the first of these requests."""
    source: str = ""
    """The life of the node that gives it."""


class Taken(Struct, frozen=True, array_like=True):
    """What was handed over is here now."""

    key: bytes
    """What the connection says when it follows."""


class SessionNews(Struct, frozen=True, array_like=True):
    """What has happened to a session while it was handed over."""

    session: str
    messages: list[tuple[str, bytes]] = []
    """Messages to it, by their wire names."""
    end_reason: str = ""
    """Why it has ended; empty if it has not."""
    end_message: str = ""
    notices: list[tuple[str, str, bytes]] = []
    """Notices to it: topic, key and body."""


class NotFollowed(Struct, frozen=True, array_like=True):
    """The connections with these keys do not follow."""

    keys: list[bytes]


class RoomEnd(Struct, frozen=True, array_like=True):
    """This room was ended while it was handed over."""

    room: str
    reason: str


class RoomMove(Struct, frozen=True, array_like=True):
    """Hand this room over to the node with this life."""

    room: str
    to: str


class SessionMove(Struct, frozen=True, array_like=True):
    """A session that goes with its room, connected as it is."""

    session: str
    sent: dict[int, int]
    """By the number of each channel: what was sent on it so far."""
    acked: dict[int, int] = {}
    """The same of what its client has acknowledged: the records in the store may be older."""


class MoveRooms(Struct, frozen=True, array_like=True):
    """Take these rooms: they stand still, and are in the store with their sessions."""

    id: str
    """The same if it is asked again."""
    rooms: list[str]
    sessions: list[SessionMove]
    """Those that were connected."""
    revisions: dict[str, int] = {}
    """Of the rooms' records."""
    effects: list[str] | None = None
    """The keys of the effects that are not carried out; None if the other node does not say."""
    source: str = ""
    """The life of the node that gives them."""
    waiting: dict[str, list[tuple[str, str]]] = {}
    """By room, the players on its waitlist and their addresses: the first is next."""


class RoomsMoved(Struct, frozen=True, array_like=True):
    """The rooms are here now."""

    keys: dict[str, bytes]
    """By session: what its connection says when it follows."""


# In the store


class ClaimRecord(Struct, frozen=True, array_like=True):
    """A name, or an idempotency key, that one room of the cluster has."""

    life: str
    """The node on which the room was made."""
    room: str
    request: bytes = b""
    """With a key: a hash of the request."""
    ended_at: float = 0.0
    """When the room has ended, in seconds since 1970; 0 if it has not."""


# Asked about them


class KeyAsked(Struct, frozen=True, array_like=True):
    """Wait for the room that is being made with this key: which is it?"""

    creator: str
    key: str


# What operators ask of all nodes, or of one


class SessionsWanted(Struct, frozen=True, array_like=True):
    """One page of the sessions of a node."""

    limit: int
    cursor: str = ""
    player: str = ""
    status: str = ""
    search: str = ""


class PlayersWanted(Struct, frozen=True, array_like=True):
    """One page of the players of a node."""

    limit: int
    cursor: str = ""
    search: str = ""


class Broadcast(Struct, frozen=True, array_like=True):
    """A message to the sessions of a node; its body is in MessagePack."""

    text: str
    type: str
    body: bytes
    role: str
    kind: str
    by: str


class TimelinePart(Struct, frozen=True, array_like=True):
    """What a node knows of a session; nothing if it has no events."""

    player: str = ""
    name: str = ""
    status: str = ""
    events: list[tuple[str, float, dict[str, Any]]] = []
    """The name of each, its time, and its other fields."""
    forgotten: int = 0
    is_here: bool = False
    """Whether this node has the session."""


class LatestSession(Struct, frozen=True, array_like=True):
    """A player's latest session on a node; empty if there is none."""

    session: str = ""
    is_open: bool = False
    at: float = 0.0
    """When it began, or when it ended, in seconds since 1970."""


class EventsWanted(Struct, frozen=True, array_like=True):
    """The events of a node after the one with this id; 0: all that are kept, -1: none, but which one is the last."""

    after: int


class EventsFound(Struct, frozen=True, array_like=True):
    """Events of a node, the oldest first."""

    position: int
    """What to ask for the next ones after."""
    events: list[EventInfo] = []


class DrainNode(Struct, frozen=True, array_like=True):
    """Hand over everything that can go on elsewhere, and take nothing new; or take rooms again."""

    is_on: bool


class ForwardedRequest(Struct, frozen=True, array_like=True):
    """A request to the HTTP API of one node that another node carries out; its caller was checked already."""

    method: str
    path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    caller: str = ""
    """The name of the API key."""


class ForwardedPart(Struct, frozen=True, array_like=True):
    """The next part of the response."""

    key: str = ""
    """What to ask for the following part with; empty if this is the last."""
    status: int = 0
    """0 until it is known; then with each part."""
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""
