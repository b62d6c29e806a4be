"""Every bound of a node, with its unit and its reason: nothing a peer does may cost more than these.

They are grouped by subject, and `Limits` has them all under their flat names. Each says what is limited and what
happens when it is reached: the tables in docs/guide/limits.md are drawn from that (`python -m tests.docs.test_limits`).
"""

from dataclasses import dataclass, field, fields
from math import inf, isinf, isnan
from typing import ClassVar, Literal, TypeVar, get_args

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
    """One connection and its payloads, before and after the sign-in."""

    SUBJECT: ClassVar[str] = "Connections and payloads"
    # One payload (a WebSocket message, a TCP frame). 64 KiB is OWASP's ceiling for WebSocket messages; picows doubles
    # its read buffer up to twice this and never shrinks it.
    payload_bytes_max: int = _limit(64 * KIB, "one payload", "the connection closes: 1009")
    # Frames that travel together in one payload; a larger frame goes alone. What is lost with a cut link is the payload
    # that it was cut in: small ones get a backlog through links that break after a few KiB, and a browser, which sees
    # whole payloads only, hears something within silence_s down to 256 bytes a second.
    batch_bytes_max: int = _limit(
        4 * KIB, "frames that travel together in one payload", "the next payload begins; a larger frame goes alone"
    )
    # Frames that one WebSocket message may come in: browsers cut large ones into a few, and each costs a turn.
    fragments_max: int = _limit(1024, "frames of one WebSocket message", "1009")
    # What a proxy says about a connection (PROXY protocol): two addresses, and some hundred bytes of its own.
    proxy_header_bytes_max: int = _limit(
        2 * KIB, "what a proxy says of a connection (PROXY protocol)", "the link is cut"
    )
    # How often the files of a certificate are looked at: a renewed one is in use this much later.
    certificate_check_s: float = _limit(
        60.0, "how often the files of a certificate are looked at", "a renewed one is in use"
    )
    # An orderly close waits this long for the peer's half before the socket is cut.
    close_s: float = _limit(
        2.0,
        "how long an orderly close waits for the other side; also the time of a room's last hooks",
        "the link is cut",
    )
    # Bytes waiting in one socket's write buffer before the client counts as slow: a window, its frames' heads, replies
    # and unreliable messages.
    write_buffer_bytes_max: int = _limit(1 * MIB, "what waits in one socket", "cut: `slow`; the client resumes")
    # How deep a message may be nested.
    nesting_max: int = _limit(
        32,
        "how deep a message or the arguments of a request may be nested",
        "the message is refused: `invalid`",
    )


@dataclass(frozen=True, kw_only=True)
class AdmissionLimits:
    """Connections before their sign-in, and how many of them, of sessions and of addresses there may be."""

    SUBJECT: ClassVar[str] = "Before the sign-in"
    # A stranger's first payload: a hello is a few hundred bytes, nothing larger is parsed before authentication.
    hello_bytes_max: int = _limit(
        4 * KIB,
        "the first payload; also what may wait of a client that is heard late",
        "4204 `too_big`; 4006 `flooding`",
    )
    # From the accepted socket to an open link, with a proxy's header, TLS and the handshake of WebSocket or TCP; from
    # there to a complete hello. Longer is a slow-loris or a port scanner.
    handshake_s: float = _limit(
        5.0,
        "from the accepted socket to an open link, with a proxy's header and TLS; also a client's dial",
        "cut",
    )
    hello_s: float = _limit(5.0, "from the open link to a whole hello", "4013 `hello_timeout`")
    # Sockets that were accepted and are no open links yet. A storm, even if all of it comes from one address, stays
    # below, for when many are on their way the next are accepted more slowly. Whoever goes silent holds a descriptor
    # for `handshake_s`.
    unopened_max: int = _limit(8_192, "accepted sockets whose handshake is not done", "the next is closed at once")
    # The part of each of the node's pools that one address may hold (an IPv6 network of 64 bits is one): unopened
    # sockets, connections, sessions, rooms, live searches, placements, and the places in a room's line. A school behind
    # one address has 5,000 connections and rooms; two addresses together have half of a pool.
    address_share: float = _limit(
        0.25,
        "the part of [each pool](#a-share-for-each-address) that one address (or IPv6 /64) may hold",
        "4005 `throttled`; a socket is closed at once",
    )
    # Addresses and networks ("198.51.100.0/24") that may hold whole pools: a tournament's hall, a load test.
    full_share: tuple[str, ...] = _limit((), "addresses and networks that may hold whole pools")
    # The part of `connections_max`, and of each address's share of it, that only those who resume may use: a node that
    # is full of new players still takes back those whom it has.
    resume_reserve: float = _limit(
        0.1,
        "the part of `connections_max`, and of an address's share of it, that only resumes may use",
        "4005 `throttled` for new players",
    )
    # What an authenticator may take, for example to ask an identity provider.
    auth_s: float = _limit(10.0, "what an authenticator may take", "4003 `busy`")
    # Links that have not said who they are: from one address (an IPv6 network of 64 bits is one), and in all. After a
    # cut of the network, or a restart of the server, everybody is a stranger for a moment: also the hundreds of players
    # of a school or a tournament, who have one address.
    strangers_per_address_max: int = _limit(
        1_024,
        "connections of one address (or IPv6 /64) that have not signed in",
        "4005 `throttled`",
    )
    strangers_max: int = _limit(12_000, "the same, in all", "4003 `busy`")
    # Hellos from one address: so many at once, then so many a second. A household, a school, a phone network may stand
    # behind one address, and all of its players come back at once: a resume with a good token costs it nothing.
    hellos_per_address_burst: int = _limit(
        1_024, "hellos of one address at once; those with a good token cost nothing", "4005 `throttled`"
    )
    hellos_per_address_per_s: float = _limit(32.0, "and after that", "4005 `throttled`")
    # Wrong credentials from one address, and floods; for each beyond the burst nobody there may sign in for a while,
    # twice as long each time.
    failures_per_address_burst: int = _limit(
        10, "wrong credentials and floods of one address", "nobody there may sign in for a while"
    )
    failures_per_address_per_s: float = _limit(0.2, "at which they are forgiven")
    failure_wait_max_s: float = _limit(60.0, "the longest such wait; each is twice the last")
    # Who comes too often, or from where too many failed, is heard this late: reconnecting in a loop takes their time.
    late_hello_s: float = _limit(
        1.0, "how long the hello of a client that comes too often waits", "their own time passes"
    )
    # Addresses that are remembered for these counts; the one that was heard of longest ago gives way.
    addresses_max: int = _limit(20_000, "addresses that are remembered", "the one heard of longest ago is forgotten")
    # The storm governor: resumes and new sign-ins that are let in each second; more are told when to come back, spread
    # over time. While resumes come in, sign-ins get what is left.
    resumes_per_s: float = _limit(
        4_000.0, "resumes that are let in, of the whole node", "4005 `throttled`, each with another time to come back"
    )
    sign_ins_per_s: float = _limit(1_000.0, "sign-ins that are let in; less while resumes come", "the same")
    # The longest that somebody is told to wait: shorter than a grace, so that who waits does not lose the session.
    retry_after_max_s: float = _limit(10.0, "the longest wait that a client is told")
    # Per node. 20,000 descriptors is a common hard limit; the rest is memory.
    connections_max: int = _limit(20_000, "links of the node", "4003 `busy`")
    sessions_max: int = _limit(50_000, "sessions of the node", "4003 `busy`")


@dataclass(frozen=True, kw_only=True)
class IdentityLimits:
    """Credentials, sessions of one player, bans."""

    SUBJECT: ClassVar[str] = "Passwords, tickets and tokens"
    # Hashes of used resume tokens kept to recognise theft.
    retired_tokens_max: int = _limit(
        8, "used tokens of a session that are recognised", "an older one is unknown, which opens nothing either"
    )
    # Histories of a session that its client may come back with: one for each restart whose welcome was not answered.
    forks_kept_max: int = _limit(
        4,
        "restarts of the server that a session remembers while its client does not answer a welcome",
        "the client is `resynced`",
    )
    sessions_per_player_max: int = _limit(
        8, "sessions of one player", "the oldest ends (4209), or the new one is refused: `sessions_policy`"
    )
    # A player who has that many signs in once more. "replace": the session that is away longest ends, or else the
    # oldest. "refuse": the new session is rejected.
    sessions_policy: SessionsPolicy = _limit(  # noqa: RUF009 - makes a field
        "replace",
        'one session more: the one that is away longest ends, or else the oldest; `"refuse"`: the new one is rejected',
    )
    # Bans that are kept: one more is refused. And sign-outs of players: with one more the oldest is forgotten, and
    # credentials that are older than that one count for nobody.
    bans_max: int = _limit(100_000, "bans", "one more is refused: `throttled`")
    sign_outs_max: int = _limit(100_000, "sign-outs that are remembered", "older credentials count for nobody")
    # Passwords that are checked at a time, and wait for it; and how many of both from one address, or whoever has an
    # account could fill the queue alone.
    password_checks_max: int = _limit(2, "passwords that are checked at a time, in threads", "the next one waits")
    password_checks_waiting_max: int = _limit(64, "those that wait", "4003 `busy`")
    password_checks_per_address_max: int = _limit(16, "both, from one address", "4003 `busy`")
    # Wrong passwords of one account, from one address and from all together, before there is a pause, and how long that
    # is: it doubles with every further one, up to the longest. In half of that one is forgiven, so nobody keeps the
    # owner out from an address or two. Accounts, each with an address, that are remembered for this.
    wrong_passwords_max: int = _limit(
        5,
        "wrong passwords of one account from one address",
        "a pause for both; the answer looks like any wrong password",
    )
    wrong_passwords_elsewhere_max: int = _limit(
        50, "the same from all addresses where its owner has not signed in from", "a pause for all of them"
    )
    lockout_s: float = _limit(1.0, "the first pause, which doubles")
    lockout_max_s: float = _limit(120.0, "the longest")
    lockouts_max: int = _limit(
        20_000, "accounts, each with an address, that are remembered for it", "the oldest is forgotten"
    )
    # The longest that a ticket may be good for, and used ones that are remembered until then.
    ticket_max_s: float = _limit(300.0, "the longest life of a ticket", "a longer one is not issued, or not taken")
    tickets_used_max: int = _limit(100_000, "used tickets that are remembered", "4003 `busy` for tickets")
    # The keys of an issuer of tokens: how old they may get, how often they are fetched for the sake of a key that is
    # not known (anybody can name one), how long a fetch may take, how large its answer may be, and how many keys are
    # taken from it (a token that names none is tried with each).
    issuer_keys_s: float = _limit(3600.0, "how old the keys of an issuer get before they are fetched again")
    issuer_keys_pause_s: float = _limit(30.0, "between two fetches for a key that is not known", "the token is refused")
    issuer_keys_timeout_s: float = _limit(5.0, "one fetch", "the keys from before stay good")
    issuer_keys_bytes_max: int = _limit(256 * KIB, "the answer to it", "the same")
    issuer_keys_max: int = _limit(32, "keys that are taken from it", "the rest is ignored")
    # Accounts and links of a server without a store: some 50 MB.
    records_in_memory_max: int = _limit(100_000, "accounts and links of a server without a store", "`throttled`")


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """What one session may send and ask for."""

    SUBJECT: ClassVar[str] = "Sessions"
    # What one session may say: so many at once (what a player has queued while away), then so many a second.
    messages_burst: int = _limit(8_192, "reliable messages at once", "a violation each")
    messages_per_s: float = _limit(200.0, "and after that", "a violation each")
    latest_burst: int = _limit(600, "unreliable messages at once", "a violation each")
    latest_per_s: float = _limit(200.0, "and after that", "a violation each")
    requests_burst: int = _limit(60, "requests at once", "a violation each")
    requests_per_s: float = _limit(20.0, "and after that", "a violation each")
    bytes_burst: int = _limit(1 * MIB, "at once", "a violation for each payload")
    bytes_per_s: float = _limit(256.0 * KIB, "and after that", "a violation for each payload")
    # What is beyond that counts as a violation, and is forgiven at this pace. The first ones are only told to the log,
    # those after `violations_warned_max` are not carried out and the client is told, and with `violations_max` its
    # connection is closed. `flood_policy` is how far that goes: "warn", "drop" or "disconnect".
    violations_per_s: float = _limit(1.0, "at which violations are forgiven")
    violations_warned_max: int = _limit(
        20, "violations that are only told to the log and the events", "the next is not carried out: `throttled`"
    )
    violations_max: int = _limit(400, "violations at a time", "4006 `flooding`")
    flood_policy: FloodPolicy = _limit("disconnect", "what happens to a client that floods", "see above")  # noqa: RUF009 - makes a field
    # Whoever has to be refused is not heard for this long: to refuse costs more than to flood. Far below silence_s.
    flood_pause_s: float = _limit(0.1, "how long a client is not read after it had to be refused")
    # The slow lane: a client that has said so many seconds' worth of bytes ahead of its rate, or so many frames in one
    # payload, is heard in portions. All clients in it together get this much of the loop's time, then a pause, so that
    # nobody else waits long for them.
    lane_ahead_s: float = _limit(0.02, "how far a client may be ahead of its bytes", "it is heard in portions")
    lane_frames_max: int = _limit(64, "frames of one payload that are heard at once", "the rest follows in portions")
    lane_portion_max: int = _limit(4, "frames of a portion")
    lane_turn_s: float = _limit(0.000_1, "what all who are heard in portions get of the loop at a time", "a pause")
    lane_pause_s: float = _limit(0.004, "that pause")
    # What was read of one client and waits in the slow lane, each payload with 256 bytes more: one read of its socket.
    # More comes only of payloads that were compressed to become large here.
    lane_bytes_max: int = _limit(
        1 * MIB,
        "what was read of a client that has to wait, and was not heard yet",
        "4006 `flooding`, whatever the policy",
    )
    # A session whose client says and acknowledges nothing for so long ends (signs of life do not count), and one that
    # is this old; 0: never.
    idle_s: float = _limit(
        1800.0,
        "without a message, a request or an acknowledgement; signs of life do not count. 0: never",
        "4206 `idle`: the client does not come back by itself",
    )
    session_age_max_s: float = _limit(0.0, "since the sign-in. 0: never", "4106 `too_old`")
    # Rooms that one player may have made and that have not ended.
    rooms_per_player_max: int = _limit(16, "rooms of one player that have not ended", "`throttled`")
    # Requests a client may have unanswered, and answers kept to repeat after a resume.
    requests_in_flight_max: int = _limit(16, "requests without an answer", "4002 `sequence`")
    replies_kept_max: int = _limit(32, "answers that can be repeated", "older ones cannot be asked for")
    # Wrong passwords and codes of one session before it is refused for good: six letters are quickly tried. Then, at
    # one room (or of codes), those of all sessions from one address, for whom another session is soon had, and those of
    # all addresses, for whoever has many. Beyond that a guess is not refused, for it may be right, but checked later,
    # up to the longest wait. The last is how many rooms and addresses are remembered for it.
    wrong_guesses_max: int = _limit(10, "wrong room passwords and codes of one session", "`throttled`, for good")
    guesses_per_address_burst: int = _limit(
        30, "the same at one room, or of codes, of one address", "the next are checked later"
    )
    guesses_per_address_per_s: float = _limit(0.2, "at which they are forgiven")
    guesses_per_room_burst: int = _limit(
        100, "wrong passwords of one room, of all addresses", "the next are checked later"
    )
    guesses_per_room_per_s: float = _limit(0.5, "at which they are forgiven")
    guess_wait_max_s: float = _limit(10.0, "how much later, for a session that has not guessed wrong", "`throttled`")
    guess_places_max: int = _limit(
        10_000,
        "rooms and addresses where guesses are remembered",
        "the one that was not heard of for longest is forgotten",
    )


@dataclass(frozen=True, kw_only=True)
class StreamLimits:
    """Messages on their way, acknowledgements and pings."""

    SUBJECT: ClassVar[str] = "Streams"
    # In flight on one channel and direction: sent, not yet acknowledged. Bounds the socket's write buffer.
    window_messages_max: int = _limit(
        1024, "messages on their way and not acknowledged, each way", "the sender waits; a client that does not: 4002"
    )
    window_bytes_max: int = _limit(256 * KIB, "the same", "the same")
    # Kept for one channel while the peer is slow or away; past this the stream is resynced, never silently cut.
    kept_messages_max: int = _limit(
        4096, "messages kept for a client that is slow or away", "4008 `slow`; the resume is `resynced`"
    )
    kept_bytes_max: int = _limit(1 * MIB, "the same", "the same")
    # A client's messages wait while it has a window or more to read: their answers would only add to that. If it reads
    # nothing at all for this long, the stream is resynced, too; as long as silence, which it is on that side.
    unread_s: float = _limit(
        16.0,
        "how long a client with a full window may go without acknowledging anything while its own messages wait",
        "4008 `slow`; the resume is `resynced`",
    )
    # Channels that ended and still owe their last messages to the client; the oldest gives way.
    closing_channels_max: int = _limit(4, "ended channels that owe their last messages", "the oldest gives way")
    # A lone acknowledgement goes out after this many messages or this long, whichever is first.
    ack_messages: int = _limit(32, "messages after which a lone acknowledgement goes out")
    ack_s: float = _limit(0.1, "or after this long")
    # A client's saved session: a new snapshot when so much was appended to the last. More than a window of messages, so
    # that it is written rarely, and little enough to be read in a moment.
    journal_bytes_max: int = _limit(512 * KIB, "appended to a client's saved session", "a new snapshot is written")
    # A ping this often; a peer that said nothing for silence_s has dropped (three pings may be lost).
    ping_s: float = _limit(5.0, "between two pings")
    silence_s: float = _limit(16.0, "without a word", "cut: `silent`; the client resumes")
    # Bytes are a sign of life too, without a whole payload, if a link carries so many each second, both ways together:
    # a large message may take longer than silence_s on a slow link, and a ping waits behind it. Whoever dribbles a byte
    # now and then must not hold a link open.
    life_bytes_per_s: float = _limit(
        1.0 * KIB, "what a link must carry to count as alive without a whole payload", "below it, the silence goes on"
    )
    # Unreliable messages kept for a congested client, newest per key.
    latest_kept_max: int = _limit(256, "unreliable messages for a congested client", "the oldest gives way")


@dataclass(frozen=True, kw_only=True)
class RoomLimits:
    """One room, and all of them."""

    SUBJECT: ClassVar[str] = "Rooms"
    rooms_max: int = _limit(20_000, "rooms of the node", "`throttled`")
    # Per room.
    admit_s: float = _limit(10.0, "what `admit` may take", "the join is refused")
    turn_s: float = _limit(30.0, "one turn", "it is cancelled; the message is answered `failed`")
    turns_waiting_max: int = _limit(16_384, "turns that wait", "`throttled`")
    timers_max: int = _limit(4096, "timers of a room", "`Throttled` is raised in the room")
    spawned_max: int = _limit(1024, "outside work of a room", "the same")
    # Objects with an owner, a player's or the server's, that a room knows: some 3 MB with usual ids. Of these one
    # player may own so many; an heir may get more.
    objects_max: int = _limit(16_384, "objects that a room knows, players' and the server's", "the same, by `own`")
    owned_per_player_max: int = _limit(1_024, "objects that one player owns", "the same; an heir may get more")
    object_id_bytes_max: int = _limit(256, "an object's id", "`ValueError` is raised in the room")
    # A room nobody has joined yet waits this long for its first player, whatever its empty_ttl_s.
    unjoined_s: float = _limit(60.0, "a room waits for its first player", "it ends: `never_joined`")
    # Outside effects of one room that wait to be carried out, and how long the pause between two attempts may become.
    effects_max: int = _limit(1024, "outside effects of a room that wait", "`Throttled` is raised in the room")
    # One attempt of an effect, and one call of a room's `save`.
    effect_s: float = _limit(60.0, "one attempt, and one call of `save`", "it is tried again")
    effect_retry_max_s: float = _limit(60.0, "the longest pause between two attempts")
    # From the request for a room until its `on_create` and `on_created` are done.
    activation_s: float = _limit(30.0, "from the request for a room to the end of `on_created`", "`failed`")
    # How long clients and rooms have after SIGTERM before the server ends all the same.
    drain_s: float = _limit(10.0, "what rooms that are not durable have after SIGTERM", "they end")
    # How often rooms are asked whether they are well, and how long one may think about it.
    health_s: float = _limit(10.0, "between two health checks")
    health_timeout_s: float = _limit(5.0, "what a room may take to answer", "it ends: `unhealthy`")


@dataclass(frozen=True, kw_only=True)
class DurabilityLimits:
    """Commits, and what a record holds."""

    SUBJECT: ClassVar[str] = "Durable rooms"
    # Durable rooms. One commit for all that changed: at once when little happens, else this often, up to so much.
    commit_s: float = _limit(0.003, "between two commits when much happens")
    commit_turns_max: int = _limit(1024, "turns of one commit", "the next commit takes the rest")
    commit_batches_max: int = _limit(1024, "rooms of one commit", "the same")
    commit_bytes_max: int = _limit(4 * MIB, "of one commit", "the same")
    # A commit that takes longer than this is looked for in the store before it is tried again.
    commit_timeout_s: float = _limit(10.0, "one commit", "it is looked for in the store, then tried again")
    # A store that refuses for this long (disk full, file locked): durable rooms stand still and clients are told busy.
    store_patience_s: float = _limit(2.0, "a store may refuse", "durable rooms stand still; 4003 `busy`")
    store_retry_s: float = _limit(0.25, "between two attempts")
    # A room's state above this lies beside its record, and is written only when it changed.
    record_state_bytes_max: int = _limit(4 * KIB, "a state within the room's record", "it lies beside it")
    # So much of each of a room's lists (seats, objects, timers) is in its record, whether it changed lately or not: a
    # small room is one value. Beyond it, entries that have not changed lately lie beside the record.
    record_list_bytes_max: int = _limit(
        2 * KIB, "seats, objects and timers (each) in the record that have not changed lately", "they lie beside it"
    )


@dataclass(frozen=True, kw_only=True)
class DirectoryLimits:
    """Searches, live searches, reservations."""

    SUBJECT: ClassVar[str] = "The directory"
    # The directory. A search shows the properties of twenty rooms in one payload.
    properties_bytes_max: int = _limit(2 * KIB, "the properties of a room", "`invalid`")
    # The longest that a seat may be reserved for somebody, and how many seats one player may have reserved at a time.
    reservation_max_s: float = _limit(3600.0, "a seat may be reserved", "`invalid`")
    reservations_per_player_max: int = _limit(32, "seats that one player has reserved", "`throttled`")
    # Rooms that a search looks at in one go, before others get their turn of the loop, and in all: then the page is
    # short, and its cursor goes on from there.
    search_slice_max: int = _limit(2_000, "rooms that a search looks at before others get their turn")
    search_looked_max: int = _limit(
        40_000, "rooms that one page of a search looks at", "the page is short; its cursor goes on"
    )
    # Different properties that are indexed; by more than these, rooms are found more slowly.
    indexed_properties_max: int = _limit(64, "different properties with an index", "others are found more slowly")
    # Searches that go on, per session and per node, and how often what changed is told.
    watches_per_session_max: int = _limit(4, "live searches of a session", "`throttled`")
    watches_max: int = _limit(2_000, "live searches of the node", "`throttled`")
    watch_s: float = _limit(0.25, "between two notices of one")
    # Rooms that such a search tells of at a time: what it knows is remembered for each.
    watch_rooms_max: int = _limit(1_000, "rooms that one tells of", "the rest is left out")
    # Rooms that ended, and the keys they were made with, are remembered for a while.
    ended_kept_s: float = _limit(600.0, "ended rooms are remembered")
    ended_kept_max: int = _limit(10_000, "the same", "the oldest is forgotten")


@dataclass(frozen=True, kw_only=True)
class ObservabilityLimits:
    """Events, timelines, logs, and what operators are shown."""

    SUBJECT: ClassVar[str] = "Observability"
    # Events that wait for one handler of `server.on`; those beyond are lost to it, and counted. As many as sessions: a
    # network that breaks drops all of them at once.
    events_waiting_max: int = _limit(
        50_000, "events that wait for one handler of `server.on`", "the next are lost to it, and counted"
    )
    # Entries in a session's timeline (65,535 at most), how long that of an ended one is kept, and of how many.
    timeline_max: int = _limit(64, "entries of a session's timeline", "the oldest gives way")
    timeline_kept_s: float = _limit(900.0, "the timeline of an ended session is kept")
    timelines_kept_max: int = _limit(10_000, "the same", "the oldest is forgotten")
    # Events kept for readers that come back after a break.
    events_kept_max: int = _limit(4_096, "events for readers who come back", "they are told of a gap")
    # Lines of the log about the same refusal or the same failure; how many more there were is told in one. Whoever can
    # cause a line must not be able to fill the disk.
    log_lines_per_s: int = _limit(
        5, "lines of the log about the same refusal or failure", "one line says how many more there were"
    )
    # Lines of the log about events of one kind that are in order, such as players who come and go; how many more there
    # were is told in one. Who wants every event reads them from the API or with server.on.
    log_events_per_s: int = _limit(50, "lines of the log about events of one kind that are in order", "the same")
    # The packet log: sessions and addresses that it follows at a time, for how long unless told otherwise and at most,
    # and how much of a payload and of its frames it shows. What is followed for a day has been forgotten. A payload
    # that is longer, or has more frames, than may be read is shown by its first bytes only: to tell its secrets from
    # the rest takes longer than the games should wait.
    packet_targets_max: int = _limit(16, "sessions and addresses that the packet log follows", "`throttled`")
    packet_log_s: float = _limit(600.0, "for how long, unless told otherwise")
    packet_log_max_s: float = _limit(86_400.0, "and at most", "`invalid`")
    packet_bytes_max: int = _limit(512, "of a payload that are shown")
    packet_frames_max: int = _limit(16, "frames of a payload that are shown")
    packet_read_bytes_max: int = _limit(
        4 * KIB, "of a payload that is read at all", "of a longer one only the first bytes are shown"
    )
    packet_read_frames_max: int = _limit(64, "frames of such a payload", "the same")
    packet_lines_per_s: int = _limit(
        1_000,
        "lines of the packet log, and messages that who watches rooms is shown",
        "one line says how many more there were",
    )
    # What is shown to who watches a room: the longest payload that its messages are read from, and how large a room's
    # state may be as JSON. Both are made while the games wait.
    message_shown_bytes_max: int = _limit(
        16 * KIB,
        "of a payload whose messages are shown to who watches a room",
        "of a longer one only its length is shown",
    )
    state_shown_bytes_max: int = _limit(1 * MIB, "a room's state, as it is shown to operators", "`refused`")


@dataclass(frozen=True, kw_only=True)
class Limits(
    # A dataclass has the fields of its last base first.
    ObservabilityLimits,
    DirectoryLimits,
    DurabilityLimits,
    RoomLimits,
    StreamLimits,
    SessionLimits,
    IdentityLimits,
    AdmissionLimits,
    LinkLimits,
):
    """The limits of one server or client; pass a changed copy to widen or narrow them."""

    def __post_init__(self) -> None:
        """Refuse what could not be kept to."""
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, int | float):
                _check(limit.name, value, is_whole=isinstance(limit.default, int))
        for name, choices in (("flood_policy", get_args(FloodPolicy)), ("sessions_policy", get_args(SessionsPolicy))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)}")


# What is never earned back, or of which nobody may have one, would stop everything.
_RATES = ("_burst", "_per_s")
_PARTS = frozenset({"address_share", "resume_reserve"})
_ABOVE_ZERO = frozenset(
    {"payload_bytes_max", "batch_bytes_max", "nesting_max", "hello_s", "ping_s", "lane_portion_max", "lane_turn_s"}
)
_ABOVE_ZERO |= {"window_messages_max", "window_bytes_max", "kept_messages_max", "kept_bytes_max"}
_ABOVE_ZERO |= {"requests_in_flight_max", "latest_kept_max", "address_share"}
# Who waits for one of these would never be heard again.
_FINITE = frozenset({"hello_s", "ping_s", "late_hello_s", "flood_pause_s", "lane_pause_s"})


# More than its place in memory can count.
_MOST = {"timeline_max": 0xFFFF}


def _check(name: str, value: float, *, is_whole: bool) -> None:
    is_above_zero = name.endswith(_RATES) or name in _ABOVE_ZERO
    if isnan(value) or value < 0 or (is_above_zero and value == 0):
        raise ValueError(f"{name} must be {'above 0' if is_above_zero else '0 or more'}; got {value:g}")
    if name in _PARTS and value > 1:
        raise ValueError(f"{name} is a part of the whole, 1 at most; got {value:g}")
    if is_whole and not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number; got {value:g}")
    if value > _MOST.get(name, inf):
        raise ValueError(f"{name} must be at most {_MOST[name]}; got {value:g}")
    if name in _FINITE and isinf(value):
        raise ValueError(f"{name} must not last for ever; got {value:g}")
