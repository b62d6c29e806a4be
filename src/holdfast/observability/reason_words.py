"""Every reason in plain words: what happened, and what somebody who operates the server can do about it.

Those of connections and sessions end so that the moment can follow: "… so its connection was closed at 12:03:07 UTC".
"""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.core.reasons import Reason


class Words(NamedTuple):
    """What is said of one reason: of a lost connection, an ended session, a freed seat, a stranger; and what to do."""

    advice: str
    drop: str = ""
    end: str = ""
    seat: str = ""
    refusal: str = ""


_R = Reason

WORDS: Mapping[Reason, Words] = {
    _R.DROPPED: Words(
        drop="The connection broke without a word",
        seat="the connection was lost, and this room does not hold seats",
        advice="Mostly nothing: networks change and phones sleep. If many players drop at once, look at what is "
        "between them and the server.",
    ),
    _R.SILENT: Words(
        drop="The player's connection went silent",
        advice="The network let nothing through, or the client stood still: a phone that sleeps, a tab in the "
        "background, a debugger. Limits.silence_s is how long the server waits, Limits.ping_s how often it asks.",
    ),
    _R.SLOW: Words(
        drop="The client read more slowly than the server wrote, so the connection was ended",
        end="The agent did not read its messages, so it was ended",
        seat="they did not read their messages",
        advice="Send less, or less often: send_latest for what only the newest counts. Limits.kept_messages_max, "
        "kept_bytes_max and write_buffer_bytes_max say how much may wait.",
    ),
    _R.SEQUENCE: Words(
        drop="The client lost count of what was sent (a gap, an acknowledgement of what was never sent, or more in "
        "flight than was agreed), so its connection was closed",
        advice="A fault in the client: use the newest version of its SDK, or check yours against docs/protocol.md.",
    ),
    _R.BUSY: Words(
        drop="The server could not save; it asked the client to come back later, and closed the connection",
        refusal="the server was full, could not save, or took too long to sign them in",
        advice="Look at the store (disk full, file locked) and at /readyz. If the node is full, raise "
        "Limits.sessions_max and connections_max, or add a node.",
    ),
    _R.STOPPING: Words(
        drop="The server stopped; it asked the client to come back, and closed the connection",
        end="The session was not one that is saved, so it ended with the server",
        seat="the server stopped",
        refusal="the server was stopping",
        advice="Nothing, if the stop was yours. Rooms with durability='checkpoint' or 'commit' keep their players "
        "across a restart.",
    ),
    _R.INTERNAL: Words(
        drop="A fault of the server ended the connection",
        refusal="a fault of the server, or of an authenticator",
        advice="The log has the error with its traceback, at the same time. If it is not in your own code, report it.",
    ),
    _R.DISCONNECTED: Words(
        drop="The game or an operator closed the connection",
        advice="Nothing: somebody called session.disconnect(). The player may come back.",
    ),
    _R.MOVED: Words(
        end="Another server took the session's room over, and this one let the session go",
        seat="another server has the session",
        refusal="the session is on another server now",
        advice="Two servers share this store, and the other one has taken the room over. If that was not meant, stop "
        "one of them.",
    ),
    _R.HELLO_TIMEOUT: Words(
        refusal="they did not say who they are in time",
        advice="A port scanner, a proxy that looks whether we live, or a very bad network. Limits.hello_s is how long "
        "they have.",
    ),
    _R.THROTTLED: Words(
        refusal="too many came at once, and they were asked to come back in a while",
        advice="Many players behind one address, a storm of them after a break, or an attack: see "
        "Limits.hellos_per_address_per_s, resumes_per_s, sign_ins_per_s, address_share and resume_reserve. Name "
        "networks with many players behind few addresses in Limits(full_share=(…)), and proxies in trusted_proxies.",
    ),
    _R.FLOODING: Words(
        drop="The client said far more than is allowed, so its connection was closed",
        refusal="they said far more than is allowed, then or a moment before",
        advice="A fault in the client, or somebody who tries the server. Limits.messages_per_s, latest_per_s, "
        "requests_per_s and bytes_per_s say how much is allowed; flood_policy what is done about it.",
    ),
    _R.AUTH_FAILED: Words(
        refusal="what they signed in with proves nothing",
        advice="A credential that is wrong or too old, or a way to sign in that this server does not have: compare the "
        "server's auth=[…] with what the client sends.",
    ),
    _R.EXPIRED: Words(
        end="Its room could not be brought back from the store, so the session was given up",
        refusal="there is no such session any more",
        advice="They came back after the grace, or after a restart of a server that had not saved the session: they "
        "sign in again. If a room was set aside, the log says why.",
    ),
    _R.TOKEN_REUSED: Words(
        end="A resume token came a second time: two parties had it, so the session was revoked",
        seat="the session was revoked",
        refusal="the token that they came back with was used before",
        advice="Two tabs or processes that share one saved session, a client that does not keep the newest token, or a "
        "theft. Ask the player; if it was not them, have them sign in anew everywhere.",
    ),
    _R.REFUSED: Words(
        refusal="who they are was proven, but the game did not let them in",
        advice="Your authenticator raised Refused: its message says why.",
    ),
    _R.SIGNED_OUT: Words(
        end="The player was signed out everywhere",
        seat="the player was signed out everywhere",
        refusal="the player was signed out everywhere",
        advice="Nothing: somebody asked for it. They sign in again with a credential that is newer.",
    ),
    _R.IDLE: Words(
        end="Nothing but signs of life came from the client for too long, so the session was ended",
        seat="they did nothing for too long",
        advice="The player walked away and left the game open. Limits.idle_s is how long that is allowed; 0 for ever. "
        "Their client does not sign in again by itself.",
    ),
    _R.TOO_OLD: Words(
        end="The session reached its greatest age, and was ended",
        seat="the session was too old",
        advice="Nothing: Limits.session_age_max_s is how old a session may become. They sign in again.",
    ),
    _R.ROLLED_BACK: Words(
        refusal="the store is older than what the client has seen",
        advice="A backup was restored, or the disk lost what it had confirmed. What happened after that is gone, and "
        "players were told. If it was not on purpose, stop the server and look for a newer copy of the store.",
    ),
    _R.BYE: Words(
        end="The player signed off",
        advice="Nothing: they left on purpose.",
    ),
    _R.KICKED: Words(
        end="The game or an operator ended the session",
        seat="the game or an operator removed them",
        advice="Nothing: somebody called kick() or session.end(), or used the API. What was said beside it is why.",
    ),
    _R.BANNED: Words(
        end="The player was banned",
        seat="the player was banned",
        refusal="the player or the address is banned",
        advice="Look at the bans of the player and of the address; lift what is not meant.",
    ),
    _R.SUPERSEDED: Words(
        end="The same player came again, and a newer session took over",
        seat="the same player took the seat with a newer session",
        advice="A second tab or device. duplicate='reject' or 'allow' on the room handles that in another way; "
        "Limits.sessions_per_player_max is how many sessions a player may have.",
    ),
    _R.PROTOCOL: Words(
        drop="The client broke the protocol, so its connection was closed",
        refusal="what they said is not the protocol",
        advice="A fault in the client, or something that is no client at all: use the newest version of its SDK, or "
        "check yours against docs/protocol.md.",
    ),
    _R.TOO_BIG: Words(
        drop="The client sent a larger payload than is allowed, so its connection was closed",
        refusal="their first payload was larger than a hello can be",
        advice="Have the client send it in parts, or raise Limits.payload_bytes_max on both ends (hello_bytes_max for "
        "the first payload).",
    ),
    _R.LEFT: Words(seat="they asked to leave", advice="Nothing: they left the room on purpose."),
    _R.GRACE_ENDED: Words(
        end="They did not come back in time, so the session ended",
        seat="they did not come back in time",
        advice="How long they have is grace_s: the room's, or the server's for who has no seat.",
    ),
    _R.ROUND_ENDED: Words(
        seat="the round ended while they were away",
        advice="Nothing: room.end() frees the seats of those who are away.",
    ),
    _R.ROOM_CLOSED: Words(seat="the room ended", advice="Nothing, if the game or an operator ended the room."),
    _R.ROOM_FAILED: Words(
        seat="the room was not well, and was ended",
        advice="The room's on_health_check said no, raised or did not answer: the log has the error.",
    ),
    _R.JOIN_FAILED: Words(
        seat="the game refused them while they joined",
        advice="on_join raised: Refused is the game's own decision; anything else is in the log.",
    ),
}
"""What is said of each; a field is empty if nothing of that kind ends for this reason."""
