"""Every reason why a connection, a session or a seat ends, in words, with advice for operators.

The time follows the words of connections and sessions: "… so its connection was closed at 12:03:07 UTC".
"""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.core.reasons import Reason


class Words(NamedTuple):
    """What one reason means for a lost connection, an ended session and a freed seat; and what to do about it."""

    advice: str
    drop: str = ""
    end: str = ""
    seat: str = ""


_R = Reason

WORDS: Mapping[Reason, Words] = {
    _R.DROPPED: Words(
        drop="The connection was lost without a close",
        seat="the connection was lost, and this room does not hold seats",
        advice="Usually nothing: networks change and phones sleep. If many players drop at once, check the network "
        "between them and the server.",
    ),
    _R.SILENT: Words(
        drop="The player's connection went silent",
        advice="The network was down, or the client was suspended: a sleeping phone, a tab in the background, a "
        "debugger. Limits.silence_s is how long the server waits, Limits.ping_s how often it pings.",
    ),
    _R.SLOW: Words(
        drop="The client read more slowly than the server wrote, so the connection was closed",
        end="The agent did not read its messages, so it was ended",
        seat="they did not read their messages",
        advice="Send less, or less often; use send_latest where only the newest value counts. "
        "Limits.kept_messages_max, kept_bytes_max and write_buffer_bytes_max say how much may wait.",
    ),
    _R.SEQUENCE: Words(
        drop="The client broke the order of messages (a gap, an acknowledgement of a message that was never sent, or "
        "more in flight than agreed), so its connection was closed",
        advice="A bug in the client: use the newest version of its SDK, or check yours against docs/protocol.md.",
    ),
    _R.BUSY: Words(
        drop="The server could not save; it asked the client to come back later, and closed the connection",
        advice="Look at the store (disk full, file locked) and at /readyz. If the node is full, raise "
        "Limits.sessions_max and connections_max, or add a node.",
    ),
    _R.STOPPING: Words(
        drop="The server stopped; it asked the client to come back, and closed the connection",
        end="The session is not saved, so it ended with the server",
        seat="the server stopped",
        advice="Nothing, if you stopped it. Rooms with durability='checkpoint' or 'commit' keep their players "
        "across a restart.",
    ),
    _R.INTERNAL: Words(
        drop="An error in the server ended the connection",
        advice="The log has the error with its traceback, at the same time. If it is not in your own code, report it.",
    ),
    _R.DISCONNECTED: Words(
        drop="The game or an operator closed the connection",
        advice="Nothing: session.disconnect() was called. The player may come back.",
    ),
    _R.MOVED: Words(
        end="Another server took over the session's room, and this one released the session",
        seat="another server has the session",
        advice="Two servers share this store, and the other one has taken over the room. If that was not intended, "
        "stop one of them.",
    ),
    _R.FLOODING: Words(
        drop="The client sent far more than is allowed, so its connection was closed",
        advice="A bug in the client, or an attack. Limits.messages_per_s, latest_per_s, "
        "requests_per_s and bytes_per_s say how much is allowed; flood_policy what happens then.",
    ),
    _R.EXPIRED: Words(
        end="Its room could not be recovered from the store, so the session was dropped",
        advice="They came back after the grace, or after a restart of a server that had not saved the session: they "
        "sign in again. If a room was set aside, the log says why.",
    ),
    _R.TOKEN_REUSED: Words(
        end="A resume token was used twice, so two parties had it, and the session was revoked",
        seat="the session was revoked",
        advice="Two tabs or processes share one saved session, a client did not save the newest token, or the token "
        "was stolen. Ask the player; if it was not them, have them sign in again everywhere.",
    ),
    _R.SIGNED_OUT: Words(
        end="The player was signed out everywhere",
        seat="the player was signed out everywhere",
        advice="Nothing: an operator or the game asked for it. They sign in again with a newer credential.",
    ),
    _R.IDLE: Words(
        end="The client sent nothing but heartbeats for too long, so the session was ended",
        seat="they were idle for too long",
        advice="The player left the game open. Limits.idle_s is how long that is allowed (0: for ever). Their client "
        "does not sign in again by itself.",
    ),
    _R.TOO_OLD: Words(
        end="The session reached its maximum age, and was ended",
        seat="the session was too old",
        advice="Nothing: Limits.session_age_max_s is how old a session may be. They sign in again.",
    ),
    _R.BYE: Words(end="The player signed off", advice="Nothing: they left on purpose."),
    _R.KICKED: Words(
        end="The game or an operator ended the session",
        seat="the game or an operator removed them",
        advice="Nothing: kick(), session.end() or the API was called. The message beside it says why.",
    ),
    _R.BANNED: Words(
        end="The player was banned",
        seat="the player was banned",
        advice="Check the bans of the player and of the address; lift those that are not intended.",
    ),
    _R.SUPERSEDED: Words(
        end="The same player signed in again, and the newer session took over",
        seat="the same player took the seat with a newer session",
        advice="A second tab or device. duplicate='reject' or 'allow' on the room changes that; "
        "Limits.sessions_per_player_max is how many sessions a player may have.",
    ),
    _R.PROTOCOL: Words(
        drop="The client broke the protocol, so its connection was closed",
        advice="A bug in the client, or a program that is not a client: use the newest version of its SDK, or check "
        "yours against docs/protocol.md.",
    ),
    _R.TOO_BIG: Words(
        drop="The client sent a larger payload than is allowed, so its connection was closed",
        advice="Have the client send it in parts, or raise Limits.payload_bytes_max on both ends (hello_bytes_max for "
        "the first payload).",
    ),
    _R.LEFT: Words(seat="they asked to leave", advice="Nothing: they left the room on purpose."),
    _R.GRACE_ENDED: Words(
        end="They did not come back in time, so the session ended",
        seat="they did not come back in time",
        advice="grace_s is how long they have: the room's, or the server's for players without a seat.",
    ),
    _R.ROUND_ENDED: Words(
        seat="the round ended while they were away", advice="Nothing: room.end() frees the seats of those who are away."
    ),
    _R.ROOM_CLOSED: Words(seat="the room ended", advice="Nothing, if the game or an operator ended the room."),
    _R.ROOM_FAILED: Words(
        seat="the room was unhealthy, and was ended",
        advice="The room's on_health_check returned false, raised or did not answer: the log has the error.",
    ),
    _R.JOIN_FAILED: Words(
        seat="the game refused them while they joined",
        advice="on_join raised: Refused is the game's own decision; anything else is in the log.",
    ),
    _R.AGENT_FAILED: Words(
        end="The code that plays this agent raised an error, so the agent was removed",
        seat="the code that plays this agent raised an error",
        advice="The log has the error with its traceback, at the same time.",
    ),
    _R.SEATED: Words(
        seat="they have a seat in the room now",
        advice="Nothing: a spectator joined the room, or the game gave them a seat.",
    ),
}
"""A field is empty if nothing of that kind ends for this reason. Reasons that only refuse a connection are not here."""
