"""Every bound of a node, with its unit and its reason: nothing a peer does may cost more than these.

docs/guide/limits.md has a table for each class here, made from it by `python -m tests.docs.test_limits`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import inf, isinf, isnan
from typing import Any, Literal, Self, TypeVar, get_args

from holdfast.schemas.frames import Terms

KIB = 1024
MIB = 1024 * KIB

FloodPolicy = Literal["warn", "drop", "disconnect"]
SessionsPolicy = Literal["replace", "refuse"]

_Value = TypeVar("_Value")


def _limit(default: _Value, what: str, then: str = "") -> _Value:
    """A limit: its default, what is limited, and what happens when it is reached."""
    return field(default=default, metadata={"what": what, "then": then})


@dataclass(frozen=True, kw_only=True)
class LinkLimits:
    """Connections and payloads."""

    # One payload (a WebSocket message, a TCP frame). 64 KiB is OWASP's ceiling for WebSocket messages; picows doubles
    # its read buffer up to twice this and never shrinks it.
    payload_bytes_max: int = _limit(64 * KIB, "one payload", "the connection closes: 1009")
    # A cut connection loses the payload in transit: with small payloads a backlog makes progress over connections that
    # break after a few KiB, and a browser, which sees whole payloads only, receives something within silence_s down to
    # 256 bytes a second.
    batch_bytes_max: int = _limit(
        4 * KIB, "frames sent together in one payload", "the next one begins; a larger frame goes alone"
    )
    # Browsers split large messages into a few fragments, and each fragment costs processing time.
    fragments_max: int = _limit(1024, "frames of one WebSocket message", "1009")
    # A PROXY header has two addresses and some hundred bytes of the proxy's own.
    proxy_header_bytes_max: int = _limit(2 * KIB, "a proxy's header (PROXY protocol)", "the connection is cut")
    # A renewed certificate is in use at most this much later.
    certificate_check_s: float = _limit(60.0, "how often the certificate files are checked", "a renewed one is loaded")
    close_s: float = _limit(
        2.0,
        "how long a close handshake waits for the peer; also the time for a room's last hooks",
        "the connection is cut",
    )
    # What fits into one UDP packet of ENet, with its headers, on every path.
    datagram_bytes_max: int = _limit(
        1_100, "unreliable messages sent as one datagram, over UDP", "a larger one is sent like a reliable message"
    )
    # The smallest packet that every path of IPv6 carries has 1,280 bytes, with its headers. ENet allows 576 to 4,096.
    udp_bytes_max: int = _limit(1_200, "one UDP packet (ENet's MTU)", "a larger payload is sent in fragments")
    # ENet's largest window, and its default.
    udp_unacked_bytes_max: int = _limit(64 * KIB, "unacknowledged bytes of one ENet connection", "the next ones wait")
    udp_unread_bytes_max: int = _limit(
        256 * KIB, "what an ENet connection receives early or while it is not read", "it is not acknowledged"
    )
    # A phone's new address is noticed after a ping and a timeout.
    udp_ping_s: float = _limit(1.0, "silence after which an ENet client pings; also how often it does beside a stream")
    udp_timeout_s: float = _limit(
        5.0,
        "silence of an ENet peer that should acknowledge something",
        "the connection is lost; the client resumes",
    )
    # At 3 the loss of one ping or answer in ten is no reason to change the way.
    udp_silence_s: float = _limit(
        3.0, "silence on UDP beside a stream", "unreliable messages go over the stream until UDP works again"
    )
    # Two packets are seldom both lost, and a position is sent twenty times a second, seldom a hundred times.
    udp_repeat_s: float = _limit(
        0.01, "after which the newest datagram is sent once more, if none was sent since; 0: never"
    )
    # Positions of a small room; a quarter of what a slow mobile network carries.
    udp_repeat_bytes_per_s: int = _limit(
        8_000, "datagrams that are sent once more, for each connection", "the next ones are sent once"
    )
    # Room for a window, its frame headers, replies and unreliable messages.
    write_buffer_bytes_max: int = _limit(1 * MIB, "the write buffer of one socket", "cut: `slow`; the client resumes")
    nesting_max: int = _limit(32, "nesting depth of a message, or of a request", "it is refused: `invalid`")


@dataclass(frozen=True, kw_only=True)
class AdmissionLimits:
    """Before authentication."""

    # A hello is a few hundred bytes; nothing larger is parsed before authentication.
    hello_bytes_max: int = _limit(
        4 * KIB,
        "the first payload; also the input kept for a client whose hello is delayed",
        "4204 `too_big`; 4006 `flooding`",
    )
    # A client that takes longer is a slow loris or a port scanner.
    handshake_s: float = _limit(
        5.0,
        "from accept to open: PROXY header, TLS and the transport's handshake together; also a client's dial",
        "cut",
    )
    hello_s: float = _limit(5.0, "from the open connection to a complete hello", "4013 `hello_timeout`")
    # A reconnect storm stays below this, even from one address: while many handshakes are pending, further sockets are
    # accepted more slowly. A silent peer holds a descriptor for `handshake_s`.
    unopened_max: int = _limit(8_192, "accepted sockets whose handshake is not finished", "the next is closed at once")
    # The pools are unopened sockets, connections, sessions, rooms, live searches, placements, and the places on a
    # room's waitlist. A school behind one address has 5,000 connections and rooms; two addresses together have half of
    # a pool.
    address_share: float = _limit(
        0.25,
        "the part of [each pool](#limits-per-address) that one address may hold (an IPv6 /64 network is one address)",
        "4005 `throttled`; a socket is closed at once",
    )
    # For example "198.51.100.0/24": a tournament venue, a load test.
    full_share: tuple[str, ...] = _limit((), "addresses and networks that may hold whole pools")
    # A node that is full of new players can still take back its own players.
    resume_reserve: float = _limit(
        0.1,
        "the part of `connections_max`, and of an address's share of it, that is reserved for resumes",
        "4005 `throttled` for new players",
    )
    # For example, to query an identity provider.
    auth_s: float = _limit(10.0, "how long an authenticator may take", "4003 `busy`")
    # After a network outage, or a restart of the server, every client is unauthenticated for a moment, including
    # hundreds of players of a school or a tournament behind one address.
    unauthenticated_per_address_max: int = _limit(
        1_024, "unauthenticated connections from one address (an IPv6 /64 network is one address)", "4005 `throttled`"
    )
    unauthenticated_max: int = _limit(12_000, "unauthenticated connections in total", "4003 `busy`")
    # A household, a school or a phone network may share one address, and all of its players return at once: a resume
    # with a valid token costs the address nothing.
    hellos_per_address_burst: int = _limit(
        1_024, "hellos of an address at once; with a valid token: free", "4005 `throttled`"
    )
    hellos_per_address_per_s: float = _limit(32.0, "and the rate after that", "4005 `throttled`")
    failures_per_address_burst: int = _limit(
        10, "wrong credentials and floods of an address", "its sign-ins are refused a while"
    )
    failures_per_address_per_s: float = _limit(0.2, "the rate at which they are forgiven")
    failure_wait_max_s: float = _limit(60.0, "the longest such wait; it doubles with each failure")
    # A delay makes reconnecting in a loop expensive for the client, not for the server.
    hello_delay_s: float = _limit(1.0, "how long the hello of a client that connects too often is delayed")
    addresses_max: int = _limit(20_000, "addresses that are counted", "the least recently seen is forgotten")
    # The storm governor: further clients are told when to retry, spread over time. Sign-ins get the capacity that
    # resumes leave.
    resumes_per_s: float = _limit(
        4_000.0, "resumes admitted by the node", "4005 `throttled`, each with its own retry time"
    )
    sign_ins_per_s: float = _limit(1_000.0, "sign-ins admitted by the node; fewer while resumes arrive", "the same")
    # Shorter than a grace, so that a waiting client does not lose its session.
    retry_after_max_s: float = _limit(10.0, "the longest wait that a client is told")
    # Per node. 20,000 descriptors is a common hard limit; the rest is memory.
    connections_max: int = _limit(20_000, "connections of the node", "4003 `busy`")
    sessions_max: int = _limit(50_000, "sessions of the node", "4003 `busy`")


@dataclass(frozen=True, kw_only=True)
class IdentityLimits:
    """Passwords, tickets and tokens."""

    # A used token that is presented again was stolen.
    retired_tokens_max: int = _limit(
        8, "used tokens of a session that are recognised", "older ones are unknown, and invalid"
    )
    # Each restart of the server whose welcome was not answered adds a history with which the client may return.
    forks_kept_max: int = _limit(
        4,
        "server restarts that a session remembers while its client has not answered a welcome",
        "the client is `resynced`",
    )
    sessions_per_player_max: int = _limit(
        8, "sessions of one player", "the oldest ends (4209), or the new one is refused: `sessions_policy`"
    )
    sessions_policy: SessionsPolicy = _limit(  # noqa: RUF009 - makes a field
        "replace",
        'whether one session more ends the one disconnected longest, or else the oldest (`"replace"`), '
        'or is rejected (`"refuse"`)',
    )
    bans_max: int = _limit(100_000, "bans", "one more is refused: `throttled`")
    role_changes_max: int = _limit(
        100_000, "players whose roles operators have changed", "one more is refused: `throttled`"
    )
    sign_outs_max: int = _limit(
        100_000,
        "sign-outs that are remembered",
        "the oldest is forgotten; credentials older than it are refused for everybody",
    )
    # Without the limit per address, one attacker with an account could fill the queue.
    password_checks_max: int = _limit(2, "passwords checked at a time, in threads", "the next one waits")
    password_checks_waiting_max: int = _limit(64, "passwords that wait for a check", "4003 `busy`")
    password_checks_per_address_max: int = _limit(16, "running and waiting checks from one address", "4003 `busy`")
    # One wrong password is forgiven in half of `lockout_max_s`, so guesses from one or two addresses never lock the
    # owner out.
    wrong_passwords_max: int = _limit(
        5,
        "wrong passwords for one account from one address",
        "the account is locked for that address; the answer is that of a wrong password",
    )
    wrong_passwords_elsewhere_max: int = _limit(
        50,
        "the same from all addresses from which the owner has not signed in",
        "the account is locked for all of them",
    )
    lockout_s: float = _limit(1.0, "the first lockout; it doubles each time")
    lockout_max_s: float = _limit(120.0, "the longest lockout")
    lockouts_max: int = _limit(20_000, "pairs of account and address that are counted", "the oldest is forgotten")
    # Used tickets are remembered until they expire.
    ticket_max_s: float = _limit(300.0, "the longest lifetime of a ticket", "a longer one is not issued or accepted")
    tickets_used_max: int = _limit(100_000, "used tickets that are remembered", "4003 `busy` for tickets")
    # Anybody can name an unknown key, so fetches for those are rare. A token that names no key is tried with each key.
    issuer_keys_s: float = _limit(3600.0, "the age at which an issuer's keys are fetched again")
    issuer_keys_pause_s: float = _limit(30.0, "the time between two fetches for an unknown key", "the token is refused")
    issuer_keys_timeout_s: float = _limit(5.0, "one fetch", "the previous keys stay valid")
    issuer_keys_bytes_max: int = _limit(256 * KIB, "the fetched document", "the same")
    issuer_keys_max: int = _limit(32, "keys read from it", "the rest is ignored")
    # About 50 MB.
    records_in_memory_max: int = _limit(100_000, "accounts and links of a server without a store", "`throttled`")


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """Sessions."""

    # The burst covers the messages that a player has queued while disconnected.
    messages_burst: int = _limit(8_192, "reliable messages at once", "a violation each")
    messages_per_s: float = _limit(200.0, "and the rate after that", "a violation each")
    latest_burst: int = _limit(600, "unreliable messages at once", "a violation each")
    latest_per_s: float = _limit(200.0, "and the rate after that", "a violation each")
    requests_burst: int = _limit(60, "requests at once", "a violation each")
    requests_per_s: float = _limit(20.0, "and the rate after that", "a violation each")
    bytes_burst: int = _limit(1 * MIB, "bytes at once", "a violation for each payload")
    bytes_per_s: float = _limit(256.0 * KIB, "and the rate after that", "a violation for each payload")
    # Everything above a rate is a violation: see `core.rates.Flood`.
    violations_per_s: float = _limit(1.0, "the rate at which violations are forgiven")
    violations_warned_max: int = _limit(20, "violations that are only reported", "the next is not applied: `throttled`")
    violations_max: int = _limit(400, "violations not yet forgiven", "4006 `flooding`")
    flood_policy: FloodPolicy = _limit(  # noqa: RUF009 - makes a field
        "disconnect", "how violations are answered", "see [above](#rate-limits-per-session)"
    )
    # Refusing costs more than flooding. Far below silence_s.
    flood_pause_s: float = _limit(0.1, "how long a client is not read after a refusal")
    # The fair queue: a client that is this far ahead of its byte rate, or sends this many frames in one payload, is
    # processed in portions. All clients in the queue together get this much of the loop's time, then a pause, so that
    # no other client waits long for them.
    fair_queue_ahead_s: float = _limit(0.02, "how far a client may exceed its byte rate", "it moves to the fair queue")
    fair_queue_frames_max: int = _limit(
        64, "frames of a payload processed at once", "the rest goes through the fair queue"
    )
    fair_queue_portion_max: int = _limit(4, "frames in one portion of the fair queue")
    fair_queue_turn_s: float = _limit(0.000_1, "the event loop's time that the fair queue may use at a time", "a pause")
    fair_queue_pause_s: float = _limit(0.004, "that pause")
    # One read of the socket; each payload counts 256 bytes more. Only payloads that inflate to much more can exceed it.
    fair_queue_bytes_max: int = _limit(
        1 * MIB, "input of one client in the fair queue", "4006 `flooding`, by any policy"
    )
    # As in Discord and on Steam. In a room a number may follow, to tell look-alikes apart.
    name_chars_max: int = _limit(32, "characters of a player's display name", "refused: `name_not_allowed`")
    idle_s: float = _limit(
        1800.0,
        "time without a message, a request or an acknowledgement; pings do not count. 0: no limit",
        "4206 `idle`: the client does not reconnect by itself",
    )
    session_age_max_s: float = _limit(0.0, "time since the sign-in. 0: no limit", "4106 `too_old`")
    rooms_per_player_max: int = _limit(16, "rooms created by one player that have not ended", "`throttled`")
    requests_in_flight_max: int = _limit(16, "unanswered requests", "4002 `sequence`")
    replies_kept_max: int = _limit(32, "replies that can be repeated", "older ones cannot be repeated")
    # A code has six letters, which are quickly tried. Another session is easily opened, so guesses are also counted by
    # address, and for one room over all addresses. Beyond those limits a guess is not refused, because it may be right,
    # but its check is delayed, up to the longest wait.
    wrong_guesses_max: int = _limit(10, "wrong room passwords and codes from one session", "`throttled` until it ends")
    guesses_per_address_burst: int = _limit(
        30, "the same from one address, for one room's password or for codes", "the next checks are delayed"
    )
    guesses_per_address_per_s: float = _limit(0.2, "the rate at which they are forgiven")
    guesses_per_room_burst: int = _limit(100, "wrong passwords for one room, in all", "the next checks are delayed")
    guesses_per_room_per_s: float = _limit(0.5, "the rate at which they are forgiven")
    guess_wait_max_s: float = _limit(10.0, "the longest delay, for a session that has not guessed wrong", "`throttled`")
    guess_counters_max: int = _limit(
        10_000, "rooms and addresses with counted guesses", "the least recently seen is forgotten"
    )
    by_role: Mapping[str, "RoleLimits"] = field(
        default_factory=dict,
        hash=False,
        metadata={"what": "other limits for sessions [with a role](#limits-by-role)", "then": ""},
    )


@dataclass(frozen=True, kw_only=True)
class StreamLimits:
    """Delivery."""

    # Bounds the socket's write buffer.
    window_messages_max: int = _limit(
        1024, "unacknowledged messages, each way", "the sender waits; a client that does not: 4002"
    )
    window_bytes_max: int = _limit(256 * KIB, "the same in bytes", "the same")
    # Above this the stream is resynced, never silently truncated.
    kept_messages_max: int = _limit(
        4096, "messages kept for a slow or absent client", "4008 `slow`; the resume is `resynced`"
    )
    kept_bytes_max: int = _limit(1 * MIB, "the same in bytes", "the same")
    # A whole view is kept like other messages, until its client has it.
    state_bytes_max: int = _limit(
        512 * KIB, "the state that a room shares, as one client has it", "it is not shared, and the log says so"
    )
    # A client's messages wait while it has a window or more to read, because their answers would only add to it. As
    # long as silence_s: a client that reads nothing is silent in that direction.
    unread_s: float = _limit(
        16.0,
        "how long a client with a full window may acknowledge nothing while its own messages wait",
        "4008 `slow`; the resume is `resynced`",
    )
    closing_channels_max: int = _limit(4, "ended channels with unacknowledged messages", "the oldest is discarded")
    ack_messages: int = _limit(64, "messages after which an acknowledgement is sent on its own")
    ack_s: float = _limit(0.1, "or the time after which a server sends it")
    # To read one costs a server more than to write a message: a client that only listens says it once a second.
    client_ack_s: float = _limit(1.0, "or the time after which a client sends it")
    # More than a window of messages, so that a snapshot is rarely written, and little enough to be read quickly.
    journal_bytes_max: int = _limit(512 * KIB, "bytes appended to a client's saved session", "a snapshot is written")
    # As long as one turn may take: an answer that comes later was probably not worth waiting for.
    ask_s: float = _limit(30.0, "how long `room.ask` waits, unless the call says otherwise", "`TimeoutError` is raised")
    asks_max: int = _limit(1024, "unanswered asks of a seat, also those that are no longer waited for", "`throttled`")
    unpolled_events_max: int = _limit(
        1024, "events of a blocking client's session that wait for `poll`", "the oldest is discarded"
    )
    # Three pings may be lost before the peer counts as dropped.
    ping_s: float = _limit(5.0, "the time between two pings")
    silence_s: float = _limit(16.0, "time without any payload from the peer", "cut: `silent`; the client resumes")
    # A large message may take longer than silence_s on a slow network, and a ping waits behind it. A peer that sends a
    # byte now and then must not hold a connection open. Counted in both directions together.
    liveness_bytes_per_s: float = _limit(
        1.0 * KIB,
        "the rate at which bytes of an incomplete payload count as a sign of life",
        "below it, the connection counts as silent",
    )
    latest_kept_max: int = _limit(256, "unreliable messages kept for a congested client", "the oldest is discarded")


@dataclass(frozen=True, kw_only=True)
class RoomLimits:
    """Rooms."""

    rooms_max: int = _limit(20_000, "rooms of the node", "`throttled`")
    admit_s: float = _limit(10.0, "how long `admit` may take", "the join is refused")
    turn_s: float = _limit(30.0, "how long one turn may take", "it is cancelled; the message is answered `failed`")
    turns_waiting_max: int = _limit(16_384, "waiting turns of a room", "`throttled`")
    timers_max: int = _limit(4096, "timers of a room", "`Throttled` is raised in the room")
    timer_name_bytes_max: int = _limit(256, "the name of a timer", "`ValueError` is raised in the room")
    spawned_max: int = _limit(1024, "spawned tasks of a room", "the same")
    # Each has a task and an inbox of `kept_messages_max` messages.
    agents_max: int = _limit(64, "agents that a room has opened", "the same, raised by `open_agent`")
    # About 3 MB with usual ids.
    objects_max: int = _limit(16_384, "objects of a room, owned by players or the server", "the same, raised by `own`")
    owned_per_player_max: int = _limit(1_024, "objects owned by one player", "the same; an heir may have more")
    object_id_bytes_max: int = _limit(256, "the id of an object", "`ValueError` is raised in the room")
    groups_max: int = _limit(1_024, "groups of a room", "`Throttled` is raised in the room")
    # About 8 MB.
    group_members_max: int = _limit(65_536, "members of all groups of a room together", "the same")
    group_name_bytes_max: int = _limit(256, "the name of a group", "`ValueError` is raised in the room")
    # Applies whatever the room's empty_ttl_s.
    unjoined_s: float = _limit(60.0, "how long a room waits for its first player", "it ends: `never_joined`")
    effects_max: int = _limit(1024, "waiting effects of a room", "`Throttled` is raised in the room")
    # A message of 100 bytes to each of 20,000 sessions.
    sends_waiting_bytes_max: int = _limit(
        4 * MIB,
        "messages to sessions from turns of a commit room that are not saved",
        "`Throttled` is raised in the room",
    )
    broadcasts_max: int = _limit(16, "broadcasts to sessions under way at the same time", "`Throttled`")
    # Messages wait for everybody who is away: a script that repeats itself must not fill the memory with them.
    broadcasts_burst: int = _limit(10, "broadcasts of operators to sessions at once: HTTP, command line, dashboard")
    broadcasts_per_s: float = _limit(0.2, "and a second", "`throttled`")
    effect_s: float = _limit(60.0, "one attempt of an effect, and one call of `save`", "it is retried")
    effect_retry_max_s: float = _limit(60.0, "the longest pause between two attempts")
    activation_s: float = _limit(30.0, "from the request for a room to the end of `on_created`", "`failed`")
    drain_s: float = _limit(10.0, "how long rooms that are not durable may continue after SIGTERM", "they end")
    health_s: float = _limit(10.0, "the time between two health checks")
    health_timeout_s: float = _limit(5.0, "how long a room's health check may take", "it ends: `unhealthy`")


@dataclass(frozen=True, kw_only=True)
class DurabilityLimits:
    """Durable rooms."""

    # One commit for everything that changed: at once when little happens, otherwise at this interval.
    commit_s: float = _limit(0.003, "the time between two commits under load")
    commit_turns_max: int = _limit(1024, "turns in one commit", "the next commit takes the rest")
    commit_batches_max: int = _limit(1024, "rooms in one commit", "the same")
    commit_bytes_max: int = _limit(4 * MIB, "bytes in one commit", "the same")
    commit_timeout_s: float = _limit(
        10.0, "how long one commit may take", "it is looked for in the store, then retried"
    )
    # For example, a full disk or a locked file.
    store_patience_s: float = _limit(2.0, "how long a store may fail", "durable rooms are paused; 4003 `busy`")
    store_retry_s: float = _limit(0.25, "the time between two attempts")
    # A separate state is written only when it has changed.
    record_state_bytes_max: int = _limit(4 * KIB, "state inside the room's record", "it is stored beside the record")
    # A small room is one value. Above this, list entries that have not changed lately are stored beside the record.
    record_list_bytes_max: int = _limit(
        2 * KIB,
        "seats, objects, timers and groups (each) in the record that have not changed lately",
        "they are stored beside the record",
    )


@dataclass(frozen=True, kw_only=True)
class NatsLimits:
    """A store on NATS."""

    nats_connect_s: float = _limit(2.0, "how long a NATS server may take to accept a connection", "the next is tried")
    # Less than half of commit_timeout_s: nothing is sent later than this, and one answer may take as long again.
    # What waits for a leader that was lost waits for as long, beside the seconds until there is another one.
    nats_answer_s: float = _limit(2.0, "how long a NATS server may take to answer", "the outcome is read back")
    nats_again_s: float = _limit(0.5, "how long a NATS server may take to answer a read", "it is asked once more")
    # A link that is silent for three of these is given up: a server that vanished does not say so.
    nats_ping_s: float = _limit(1.0, "the time between two pings to a NATS server", "reconnected")
    nats_reconnect_s: float = _limit(0.25, "the pause before a NATS server is tried again")
    nats_buffer_bytes_max: int = _limit(
        8 * MIB, "bytes for a NATS server that does not read, or is gone", "the commit waits, or fails"
    )
    # A batch is kept in the memory of the NATS server until it is complete.
    nats_batch_writes_max: int = _limit(500, "values in one batch", "the next begins; a room goes whole")
    nats_batch_bytes_max: int = _limit(4 * MIB, "bytes in one batch", "the same")
    nats_reads_max: int = _limit(64, "values that are read from NATS at the same time", "they wait")
    nats_read_bytes_max: int = _limit(8 * MIB, "values of a list that NATS sends ahead", "it waits")
    # A deleted key leaves a mark, so that the next value of the key has a revision to replace.
    nats_deleted_s: int = _limit(60, "how long the mark of a deleted key is kept")
    nats_holder_s: float = _limit(
        0.5, "how long a server that left without a word keeps its store", "another may start"
    )


@dataclass(frozen=True, kw_only=True)
class ClusterLimits:
    """The nodes of a cluster."""

    beat_s: float = _limit(0.25, "the time between two beats of a node")
    suspect_s: float = _limit(0.6, "how long a node may be silent", "suspected: it is asked, and takes no rooms")
    probe_s: float = _limit(0.15, "how long a suspected node may take to answer", "it may hang, or be busy")
    absent_s: float = _limit(0.5, "how long nobody may answer for a suspected node", "it is dead: its rooms are free")
    silent_s: float = _limit(2.0, "how long a node may be silent that still has a link", "the same")
    # A handler that blocks for two seconds is bad, and no reason to move a thousand rooms.
    hung_s: float = _limit(5.0, "how long the event loop of a node may be blocked", "the same")
    doubt_s: float = _limit(
        2.0, "how long a node that lost its link, or sees two others vanish together, believes nobody dead"
    )
    nodes_max: int = _limit(1024, "nodes, also dead ones", "further ones are not heard")
    dead_kept_s: float = _limit(60.0, "how long a dead node is remembered", "forgotten; a beat makes it known again")
    answer_s: float = _limit(
        1.0, "how long a node may take to answer another", "it is asked again, or named as missing"
    )
    operator_answer_s: float = _limit(
        0.5, "how long a node may take to answer operators who ask all", "it is named as missing"
    )
    # A NATS server accepts at least 64 KiB.
    forwarded_bytes_max: int = _limit(48 * KIB, "one part of a response that another node gives", "more parts follow")
    forwarded_max: int = _limit(64, "requests of operators that other nodes have forwarded to a node", "`throttled`")
    forwarded_s: float = _limit(5.0, "how long the rest of a response waits to be asked for", "dropped")
    sweep_s: float = _limit(60.0, "the time between two looks for rooms that no node has, also if no node has died")
    handover_s: float = _limit(
        10.0, "how long a session that came from another node waits for its connection", "its grace begins"
    )
    notices_kept_max: int = _limit(
        64, "notices to a client that is on its way to another node", "the next ones are lost: ask again"
    )
    move_rest_s: float = _limit(
        0.3, "how long a room that moves waits until what its clients have sent is carried out", "these have to resume"
    )
    # What nodes tell each other of their rooms.
    rows_s: float = _limit(0.1, "the time between two words to the other nodes about rooms that changed")
    remote_rooms_max: int = _limit(500_000, "rooms of other nodes that this one lists", "searches here miss the rest")
    row_members_max: int = _limit(
        64, "players of a private room who find it from other nodes", "others find it on the room's own node"
    )
    questions_kept_max: int = _limit(
        10_000, "requests of players of other nodes that are carried out here, or were lately", "`throttled`"
    )
    news_waiting_max: int = _limit(
        10_000, "bans, sign-outs and the like on their way to the other nodes", "these read the store instead"
    )
    recovering_s: float = _limit(
        10.0, "how long a durable room of a dead node is listed before another has it", "it is not listed"
    )
    # Clients whose session is on another node than their connection.
    relay_unread_bytes_max: int = _limit(
        256 * KIB, "payloads of one client on their way to another node, or not read there", "they wait on this one"
    )
    relay_line_bytes_max: int = _limit(
        8 * MIB, "payloads of all clients on their way to one other node", "they wait, and the clients take turns"
    )
    # With a last part and what costs no credit it fits into 64 KiB, the smallest message that a store on NATS accepts.
    relay_message_bytes_max: int = _limit(
        32 * KIB, "payloads in one message to another node", "the next one takes the rest"
    )
    relay_part_bytes_max: int = _limit(8 * KIB, "a piece of a payload that is relayed", "the next piece takes the rest")
    relay_ack_s: float = _limit(
        0.02, "how long a node waits before it confirms what came to it, if it has nothing to say"
    )
    relay_beat_s: float = _limit(
        1.0, "the time between two words to a node that relays, also if there is nothing to say"
    )
    relay_silent_s: float = _limit(
        3.0, "how long a node that relays may be silent", "its links are closed; clients resume elsewhere"
    )
    relay_settled_s: float = _limit(
        1.0, "how long a client is relayed before its connection is passed to its node, if both are on one machine"
    )
    relay_passing_s: float = _limit(2.0, "how long passing a connection may take", "it is relayed as before")


@dataclass(frozen=True, kw_only=True)
class DirectoryLimits:
    """Directory."""

    # A page of twenty rooms with their properties fits in one payload.
    properties_bytes_max: int = _limit(2 * KIB, "the properties of a room", "`invalid`")
    # A room keeps those of every seat and reservation.
    options_bytes_max: int = _limit(4 * KIB, "the options that a player joins a room with", "`invalid`")
    # It is kept until the room has begun: with a placement, for as long as that is pending.
    config_bytes_max: int = _limit(8 * KIB, "the config of a new room, in MessagePack", "`invalid`")
    reservation_max_s: float = _limit(3600.0, "how long a seat may be reserved", "`invalid`")
    reservations_per_player_max: int = _limit(32, "seats reserved by one player", "`throttled`")
    search_slice_max: int = _limit(2_000, "rooms that a search examines before it yields to other work")
    search_examined_max: int = _limit(40_000, "rooms examined for one page", "the page is short; its cursor continues")
    indexed_properties_max: int = _limit(64, "properties with an index", "searches by others are slower")
    watches_per_session_max: int = _limit(4, "live searches of a session", "`throttled`")
    watches_max: int = _limit(2_000, "live searches of the node", "`throttled`")
    watch_s: float = _limit(0.25, "the time between two updates of a live search")
    # The server remembers the last sent state of each.
    watch_rooms_max: int = _limit(1_000, "rooms in a live search", "the rest is left out")
    # With the idempotency keys with which they were created.
    ended_kept_s: float = _limit(600.0, "how long ended rooms are remembered")
    ended_kept_max: int = _limit(10_000, "ended rooms that are remembered", "the oldest is forgotten")


@dataclass(frozen=True, kw_only=True)
class ObservabilityLimits:
    """Observability."""

    # As many as sessions: a network outage drops all of them at once.
    events_waiting_max: int = _limit(
        50_000, "events queued for one handler of `server.on`", "more are dropped, and counted"
    )
    timeline_max: int = _limit(64, "entries of a session's timeline", "the oldest is discarded")
    timeline_kept_s: float = _limit(900.0, "how long the timeline of an ended session is kept")
    timelines_kept_max: int = _limit(10_000, "timelines of ended sessions", "the oldest is forgotten")
    events_kept_max: int = _limit(4_096, "events kept for readers of `GET /v1/events`", "a late reader gets a `gap`")
    # A client that can cause a log line must not be able to fill the disk.
    log_lines_per_s: int = _limit(5, "log lines about the same refusal or failure", "one line counts the omitted ones")
    # To read every event, use the API or server.on.
    log_events_per_s: int = _limit(50, "log lines about ordinary events of one type", "the same")
    # A target that is recorded for a day has been forgotten. Longer payloads are shown by their first bytes only:
    # separating their secrets from the rest would block the games for too long.
    packet_targets_max: int = _limit(16, "sessions and addresses that the packet log records", "`throttled`")
    packet_log_s: float = _limit(600.0, "how long, by default")
    packet_log_max_s: float = _limit(86_400.0, "how long, at most", "`invalid`")
    packet_bytes_max: int = _limit(512, "bytes shown of a payload")
    packet_frames_max: int = _limit(16, "frames shown of a payload")
    packet_read_bytes_max: int = _limit(
        4 * KIB, "the longest payload that is decoded", "only the first bytes are shown"
    )
    packet_read_frames_max: int = _limit(64, "frames of such a payload", "the same")
    packet_lines_per_s: int = _limit(
        1_000, "lines of the packet log, and messages shown", "one line counts the omitted ones"
    )
    # Both are computed on the event loop, while the games wait.
    message_shown_bytes_max: int = _limit(
        16 * KIB, "the longest payload shown to viewers of a room", "only its length is shown"
    )
    state_shown_bytes_max: int = _limit(1 * MIB, "a room's state as shown to operators", "`refused`")


@dataclass(frozen=True, kw_only=True)
class RecordingLimits:
    """Recordings of rooms."""

    # A minute of 1,000 entities at 20 Hz takes about one MiB, a whole card game 15 KiB.
    recording_bytes_max: int = _limit(8 * MIB, "what is kept of one room, deflated", "its oldest turns are discarded")
    recording_turns_max: int = _limit(200_000, "turns that are kept of one room", "the same")
    recordings_bytes_max: int = _limit(
        256 * MIB,
        "all recordings of a node together",
        "the oldest of an ended room is discarded, else the oldest turns of the room that grows",
    )
    recordings_kept_max: int = _limit(100, "recordings of rooms that have ended", "the oldest is discarded")
    # Every turn looks at the whole state.
    recorded_state_bytes_max: int = _limit(
        1 * MIB, "the state of a room that is recorded, encoded", "its recording stops, and says so"
    )
    recorded_body_bytes_max: int = _limit(
        4 * KIB, "the body of a sent message, and the arguments of a hook", "only its size is kept"
    )
    fork_seat_s: float = _limit(3_600.0, "how long the seats of a fork wait for their players", "they are freed")


# A limit of 0 means that there is none.
_ZERO_IS_NONE = frozenset({"idle_s", "session_age_max_s"})


@dataclass(frozen=True, kw_only=True)
class RoleLimits:
    """Limits for the sessions with a role, or for one session; None leaves the server's."""

    messages_burst: int | None = None
    messages_per_s: float | None = None
    latest_burst: int | None = None
    latest_per_s: float | None = None
    requests_burst: int | None = None
    requests_per_s: float | None = None
    bytes_burst: int | None = None
    bytes_per_s: float | None = None
    idle_s: float | None = None
    session_age_max_s: float | None = None
    sessions_per_player_max: int | None = None
    rooms_per_player_max: int | None = None

    def __new__(cls, /, **values: Any) -> Self:
        """Say which limits there are."""
        for name in values:
            if name not in cls.__dataclass_fields__:
                known = ", ".join(cls.__dataclass_fields__)
                raise TypeError(f"the limit `{name}` cannot be set for a role or a session; these can: {known}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Reject values that would stop the session."""
        for name, value in self.values().items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} must be a number; got {value!r}")  # noqa: TRY004 - as for other values
            is_whole = isinstance(_OF_SESSIONS[name], int)
            # JSON and records do not tell 100 from 100.0.
            number = int(value) if is_whole and value == value // 1 else value
            object.__setattr__(self, name, number)
            _check(name, number, is_whole=is_whole)

    def values(self) -> dict[str, Any]:
        """The limits that are set."""
        return {name: value for name, value in vars(self).items() if value is not None}


_OF_SESSIONS: dict[str, Any] = {
    limit.name: limit.default for group in (SessionLimits, IdentityLimits) for limit in fields(group)
}


def most_generous(of_roles: Iterable[RoleLimits]) -> RoleLimits:
    """For each limit that some of them set, the largest value; where 0 means no limit, 0."""
    found: dict[str, Any] = {}
    for each in of_roles:
        for name, value in each.values().items():
            known = found.get(name, value)
            is_unlimited = name in _ZERO_IS_NONE and not (known and value)
            found[name] = 0.0 if is_unlimited else max(known, value)
    return RoleLimits(**found)


@dataclass(frozen=True, kw_only=True)
class Limits(
    # A dataclass has the fields of its last base first.
    RecordingLimits,
    ObservabilityLimits,
    DirectoryLimits,
    ClusterLimits,
    NatsLimits,
    DurabilityLimits,
    RoomLimits,
    StreamLimits,
    SessionLimits,
    IdentityLimits,
    AdmissionLimits,
    LinkLimits,
):
    """The limits of one server or client; pass a changed copy to widen or narrow them."""

    def __new__(cls, **values: Any) -> Self:
        """Say the new name of a limit that was renamed, and what replaces one that was removed."""
        for name in values:
            if name in RENAMED:
                raise TypeError(f"the limit `{name}` is now `{RENAMED[name]}`")
            if name in REMOVED:
                raise TypeError(f"the limit `{name}` was removed: {REMOVED[name]}")
        return super().__new__(cls)

    def terms(self, grace_s: float) -> Terms:
        """What a client is told of them."""
        return Terms(
            payload_bytes_max=self.payload_bytes_max,
            window_messages_max=self.window_messages_max,
            window_bytes_max=self.window_bytes_max,
            requests_in_flight_max=self.requests_in_flight_max,
            ping_s=self.ping_s,
            silence_s=self.silence_s,
            grace_s=grace_s,
        )

    def __post_init__(self) -> None:
        """Reject values that would stop the server."""
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, int | float):
                _check(limit.name, value, is_whole=isinstance(limit.default, int))
        for name, choices in (("flood_policy", get_args(FloodPolicy)), ("sessions_policy", get_args(SessionsPolicy))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)}")
        roles: Any = self.by_role
        for role, limits in roles.items() if isinstance(roles, Mapping) else [(None, None)]:
            if not isinstance(role, str) or not role or not isinstance(limits, RoleLimits):
                raise TypeError('by_role maps roles to their limits, as in {"gm": RoleLimits(messages_per_s=500)}')


RENAMED = {
    "strangers_max": "unauthenticated_max",
    "strangers_per_address_max": "unauthenticated_per_address_max",
    "late_hello_s": "hello_delay_s",
    "lane_ahead_s": "fair_queue_ahead_s",
    "lane_frames_max": "fair_queue_frames_max",
    "lane_portion_max": "fair_queue_portion_max",
    "lane_turn_s": "fair_queue_turn_s",
    "lane_pause_s": "fair_queue_pause_s",
    "lane_bytes_max": "fair_queue_bytes_max",
    "life_bytes_per_s": "liveness_bytes_per_s",
    "guess_places_max": "guess_counters_max",
    "search_looked_max": "search_examined_max",
}
"""Earlier names of limits."""
REMOVED = {
    "unopened_per_address_max": "use address_share, the part of unopened_max that one address may hold, as in 0.25",
}
"""What to use instead of limits that no longer exist."""

# A bucket that never refills, or a window of 0, would stop everything.
_ABOVE_ZERO = frozenset(
    {
        *("payload_bytes_max", "batch_bytes_max", "nesting_max", "hello_s", "ping_s", "address_share"),
        *(
            "nats_connect_s",
            "nats_answer_s",
            "nats_ping_s",
            "nats_batch_writes_max",
            "nats_reads_max",
            "nats_deleted_s",
        ),
        *(
            "beat_s",
            "probe_s",
            "nodes_max",
            "relay_line_bytes_max",
            "relay_message_bytes_max",
            "relay_part_bytes_max",
            "relay_beat_s",
        ),
        *("fair_queue_portion_max", "fair_queue_turn_s", "requests_in_flight_max", "latest_kept_max"),
        *("window_messages_max", "window_bytes_max", "kept_messages_max", "kept_bytes_max"),
        *("udp_unacked_bytes_max", "udp_unread_bytes_max", "udp_ping_s", "udp_timeout_s", "udp_silence_s"),
    }
)
# A client that waits for one of these would wait for ever.
_FINITE = frozenset(
    {
        "hello_s",
        "ping_s",
        "udp_ping_s",
        "udp_timeout_s",
        "udp_silence_s",
        "udp_repeat_s",
        "hello_delay_s",
        "flood_pause_s",
        "fair_queue_pause_s",
    }
)
# Fractions, and a count that is stored in 16 bits.
_MOST = {
    "address_share": 1,
    "resume_reserve": 1,
    "timeline_max": 0xFFFF,
    "udp_bytes_max": 4096,
    "relay_part_bytes_max": 8 * KIB,
}
# ENet's smallest packet; two parts.
_LEAST = {"udp_bytes_max": 576, "relay_unread_bytes_max": 16 * KIB}


def _check(name: str, value: float, *, is_whole: bool) -> None:
    is_above_zero = name.endswith(("_burst", "_per_s")) or name in _ABOVE_ZERO
    if isnan(value) or value < 0 or (is_above_zero and value == 0):
        raise ValueError(f"{name} must be {'above 0' if is_above_zero else '0 or more'}; got {value:g}")
    if is_whole and not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number; got {value:g}")
    if value < _LEAST.get(name, 0):
        raise ValueError(f"{name} must be at least {_LEAST[name]}; got {value:g}")
    if value > _MOST.get(name, inf):
        raise ValueError(f"{name} must be at most {_MOST[name]}; got {value:g}")
    if name in _FINITE and isinf(value):
        raise ValueError(f"{name} must be finite; got {value:g}")
