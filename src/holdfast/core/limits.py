"""Every bound of a node, with its unit and its reason: nothing a peer does may cost more than these."""

from dataclasses import dataclass, fields
from math import inf, isinf, isnan
from typing import Literal, get_args

KIB = 1024
MIB = 1024 * KIB

FloodPolicy = Literal["warn", "drop", "disconnect"]
SessionsPolicy = Literal["replace", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server or client; pass a changed copy to widen or narrow them."""

    # One payload (a WebSocket message, a TCP frame). 64 KiB is OWASP's ceiling for WebSocket messages;
    # picows doubles its read buffer up to twice this and never shrinks it.
    payload_bytes_max: int = 64 * KIB
    # Frames that travel together in one payload; a larger frame goes alone. What is lost with a cut link is the payload
    # that it was cut in: small ones get a backlog through links that break after a few KiB, and a browser, which sees
    # whole payloads only, hears something within silence_s down to 256 bytes a second.
    batch_bytes_max: int = 4 * KIB
    # Frames that one WebSocket message may come in: browsers cut large ones into a few, and each costs a turn.
    fragments_max: int = 1024
    # What a proxy says about a connection (PROXY protocol): two addresses, and some hundred bytes of its own.
    proxy_header_bytes_max: int = 2 * KIB
    # How often the files of a certificate are looked at: a renewed one is in use this much later.
    certificate_check_s: float = 60.0
    # A stranger's first payload: a hello is a few hundred bytes, nothing larger is parsed before authentication.
    hello_bytes_max: int = 4 * KIB
    # From the accepted socket to an open link, with a proxy's header, TLS and the handshake of WebSocket or TCP; from
    # there to a complete hello. Longer is a slow-loris or a port scanner.
    handshake_s: float = 5.0
    hello_s: float = 5.0
    # Sockets that were accepted and are no open links yet. A storm, even if all of it comes from one address, stays
    # below, for when many are on their way the next are accepted more slowly. Whoever goes silent holds a descriptor
    # for `handshake_s`.
    unopened_max: int = 8_192
    # The part of each of the node's pools that one address may hold (an IPv6 network of 64 bits is one): unopened
    # sockets, connections, sessions, rooms, live searches, placements, and the places in a room's line. A school behind
    # one address has 5,000 connections and rooms; two addresses together have half of a pool.
    address_share: float = 0.25
    # Addresses and networks ("198.51.100.0/24") that may hold whole pools: a tournament's hall, a load test.
    full_share: tuple[str, ...] = ()
    # The part of `connections_max`, and of each address's share of it, that only those who resume may use: a node that
    # is full of new players still takes back those whom it has.
    resume_reserve: float = 0.1
    # What an authenticator may take, for example to ask an identity provider.
    auth_s: float = 10.0
    # Links that have not said who they are: from one address (an IPv6 network of 64 bits is one), and in all. After a
    # cut of the network, or a restart of the server, everybody is a stranger for a moment: also the hundreds of players
    # of a school or a tournament, who have one address.
    strangers_per_address_max: int = 1_024
    strangers_max: int = 12_000
    # Hellos from one address: so many at once, then so many a second. A household, a school, a phone network may stand
    # behind one address, and all of its players come back at once: a resume with a good token costs it nothing.
    hellos_per_address_burst: int = 1_024
    hellos_per_address_per_s: float = 32.0
    # Wrong credentials from one address, and floods; for each beyond the burst nobody there may sign in for a while,
    # twice as long each time.
    failures_per_address_burst: int = 10
    failures_per_address_per_s: float = 0.2
    failure_wait_max_s: float = 60.0
    # Who comes too often, or from where too many failed, is heard this late: reconnecting in a loop takes their time.
    late_hello_s: float = 1.0
    # Addresses that are remembered for these counts; the one that was heard of longest ago gives way.
    addresses_max: int = 20_000
    # The storm governor: resumes and new sign-ins that are let in each second; more are told when to come back, spread
    # over time. While resumes come in, sign-ins get what is left.
    resumes_per_s: float = 4_000.0
    sign_ins_per_s: float = 1_000.0
    # The longest that somebody is told to wait: shorter than a grace, so that who waits does not lose the session.
    retry_after_max_s: float = 10.0
    # An orderly close waits this long for the peer's half before the socket is cut.
    close_s: float = 2.0

    # In flight on one channel and direction: sent, not yet acknowledged. Bounds the socket's write buffer.
    window_messages_max: int = 1024
    window_bytes_max: int = 256 * KIB
    # Kept for one channel while the peer is slow or away; past this the stream is resynced, never silently cut.
    kept_messages_max: int = 4096
    kept_bytes_max: int = 1 * MIB
    # A client's messages wait while it has a window or more to read: their answers would only add to that. If it reads
    # nothing at all for this long, the stream is resynced, too; as long as silence, which it is on that side.
    unread_s: float = 16.0
    # Channels that ended and still owe their last messages to the client; the oldest gives way.
    closing_channels_max: int = 4

    # A lone acknowledgement goes out after this many messages or this long, whichever is first.
    ack_messages: int = 32
    ack_s: float = 0.1
    # A client's saved session: a new snapshot when so much was appended to the last. More than a window of messages, so
    # that it is written rarely, and little enough to be read in a moment.
    journal_bytes_max: int = 512 * KIB
    # A ping this often; a peer that said nothing for silence_s has dropped (three pings may be lost).
    ping_s: float = 5.0
    silence_s: float = 16.0
    # Bytes are a sign of life too, without a whole payload, if a link carries so many each second, both ways together:
    # a large message may take longer than silence_s on a slow link, and a ping waits behind it. Whoever dribbles a byte
    # now and then must not hold a link open.
    life_bytes_per_s: float = 1.0 * KIB
    # Unreliable messages kept for a congested client, newest per key.
    latest_kept_max: int = 256
    # Bytes waiting in one socket's write buffer before the client counts as slow: a window, its frames' heads,
    # replies and unreliable messages.
    write_buffer_bytes_max: int = 1 * MIB

    # What one session may say: so many at once (what a player has queued while away), then so many a second.
    messages_burst: int = 8_192
    messages_per_s: float = 200.0
    latest_burst: int = 600
    latest_per_s: float = 200.0
    requests_burst: int = 60
    requests_per_s: float = 20.0
    bytes_burst: int = 1 * MIB
    bytes_per_s: float = 256.0 * KIB
    # What is beyond that counts as a violation, and is forgiven at this pace. The first ones are only told to the log,
    # those after `violations_warned_max` are not carried out and the client is told, and with `violations_max` its
    # connection is closed. `flood_policy` is how far that goes: "warn", "drop" or "disconnect".
    violations_per_s: float = 1.0
    violations_warned_max: int = 20
    violations_max: int = 400
    flood_policy: FloodPolicy = "disconnect"
    # Whoever has to be refused is not heard for this long: to refuse costs more than to flood. Far below silence_s.
    flood_pause_s: float = 0.1
    # The slow lane: a client that has said so many seconds' worth of bytes ahead of its rate, or so many frames in one
    # payload, is heard in portions. All clients in it together get this much of the loop's time, then a pause, so that
    # nobody else waits long for them.
    lane_ahead_s: float = 0.02
    lane_frames_max: int = 64
    lane_portion_max: int = 4
    lane_turn_s: float = 0.000_1
    lane_pause_s: float = 0.004
    # What was read of one client and waits in the slow lane, each payload with 256 bytes more: one read of its socket.
    # More comes only of payloads that were compressed to become large here.
    lane_bytes_max: int = 1 * MIB
    # How deep a message may be nested.
    nesting_max: int = 32
    # A session whose client says and acknowledges nothing for so long ends (signs of life do not count), and one that
    # is this old; 0: never.
    idle_s: float = 1800.0
    session_age_max_s: float = 0.0
    # Rooms that one player may have made and that have not ended.
    rooms_per_player_max: int = 16

    # Requests a client may have unanswered, and answers kept to repeat after a resume.
    requests_in_flight_max: int = 16
    replies_kept_max: int = 32
    # Hashes of used resume tokens kept to recognise theft.
    retired_tokens_max: int = 8
    # Histories of a session that its client may come back with: one for each restart whose welcome was not answered.
    forks_kept_max: int = 4

    # Per node. 20,000 descriptors is a common hard limit; the rest is memory.
    connections_max: int = 20_000
    sessions_max: int = 50_000
    sessions_per_player_max: int = 8
    # A player who has that many signs in once more. "replace": the session that is away longest ends, or else the
    # oldest. "refuse": the new session is rejected.
    sessions_policy: SessionsPolicy = "replace"
    rooms_max: int = 20_000

    # Per room.
    admit_s: float = 10.0
    turn_s: float = 30.0
    turns_waiting_max: int = 16_384
    timers_max: int = 4096
    spawned_max: int = 1024
    # Objects with an owner, a player's or the server's, that a room knows: some 3 MB with usual ids. Of these one
    # player may own so many; an heir may get more.
    objects_max: int = 16_384
    owned_per_player_max: int = 1_024
    object_id_bytes_max: int = 256
    # A room nobody has joined yet waits this long for its first player, whatever its empty_ttl_s.
    unjoined_s: float = 60.0

    # Durable rooms. One commit for all that changed: at once when little happens, else this often, up to so much.
    commit_s: float = 0.003
    commit_turns_max: int = 1024
    commit_batches_max: int = 1024
    commit_bytes_max: int = 4 * MIB
    # A commit that takes longer than this is looked for in the store before it is tried again.
    commit_timeout_s: float = 10.0
    # A store that refuses for this long (disk full, file locked): durable rooms stand still and clients are told busy.
    store_patience_s: float = 2.0
    store_retry_s: float = 0.25
    # A room's state above this lies beside its record, and is written only when it changed.
    record_state_bytes_max: int = 4 * KIB
    # So much of each of a room's lists (seats, objects, timers) is in its record, whether it changed lately or not: a
    # small room is one value. Beyond it, entries that have not changed lately lie beside the record.
    record_list_bytes_max: int = 2 * KIB
    # Outside effects of one room that wait to be carried out, and how long the pause between two attempts may become.
    effects_max: int = 1024
    # One attempt of an effect, and one call of a room's `save`.
    effect_s: float = 60.0
    effect_retry_max_s: float = 60.0

    # The directory. A search shows the properties of twenty rooms in one payload.
    properties_bytes_max: int = 2 * KIB
    # From the request for a room until its `on_create` and `on_created` are done.
    activation_s: float = 30.0
    # The longest that a seat may be reserved for somebody, and how many seats one player may have reserved at a time.
    reservation_max_s: float = 3600.0
    reservations_per_player_max: int = 32
    # Wrong passwords and codes of one session before it is refused for good: six letters are quickly tried. Then, at
    # one room (or of codes), those of all sessions from one address, for whom another session is soon had, and those of
    # all addresses, for whoever has many. Beyond that a guess is not refused, for it may be right, but checked later,
    # up to the longest wait. The last is how many rooms and addresses are remembered for it.
    wrong_guesses_max: int = 10
    guesses_per_address_burst: int = 30
    guesses_per_address_per_s: float = 0.2
    guesses_per_room_burst: int = 100
    guesses_per_room_per_s: float = 0.5
    guess_wait_max_s: float = 10.0
    guess_places_max: int = 10_000
    # Rooms that a search looks at in one go, before others get their turn of the loop, and in all: then the page is
    # short, and its cursor goes on from there.
    search_slice_max: int = 2_000
    search_looked_max: int = 40_000
    # Different properties that are indexed; by more than these, rooms are found more slowly.
    indexed_properties_max: int = 64
    # Searches that go on, per session and per node, and how often what changed is told.
    watches_per_session_max: int = 4
    watches_max: int = 2_000
    watch_s: float = 0.25
    # Rooms that such a search tells of at a time: what it knows is remembered for each.
    watch_rooms_max: int = 1_000
    # Rooms that ended, and the keys they were made with, are remembered for a while.
    ended_kept_s: float = 600.0
    ended_kept_max: int = 10_000
    # Events that wait for one handler of `server.on`; those beyond are lost to it, and counted. As many as sessions: a
    # network that breaks drops all of them at once.
    events_waiting_max: int = 50_000
    # Entries in a session's timeline (65,535 at most), how long that of an ended one is kept, and of how many.
    timeline_max: int = 64
    timeline_kept_s: float = 900.0
    timelines_kept_max: int = 10_000
    # Bans that are kept: one more is refused. And sign-outs of players: with one more the oldest is forgotten, and
    # credentials that are older than that one count for nobody.
    bans_max: int = 100_000
    sign_outs_max: int = 100_000
    # Passwords that are checked at a time, and wait for it; and how many of both from one address, or whoever has an
    # account could fill the queue alone.
    password_checks_max: int = 2
    password_checks_waiting_max: int = 64
    password_checks_per_address_max: int = 16
    # Wrong passwords of one account, from one address and from all together, before there is a pause, and how long that
    # is: it doubles with every further one, up to the longest. In half of that one is forgiven, so nobody keeps the
    # owner out from an address or two. Accounts, each with an address, that are remembered for this.
    wrong_passwords_max: int = 5
    wrong_passwords_elsewhere_max: int = 50
    lockout_s: float = 1.0
    lockout_max_s: float = 120.0
    lockouts_max: int = 20_000
    # The longest that a ticket may be good for, and used ones that are remembered until then.
    ticket_max_s: float = 300.0
    tickets_used_max: int = 100_000
    # The keys of an issuer of tokens: how old they may get, how often they are fetched for the sake of a key that is
    # not known (anybody can name one), how long a fetch may take, how large its answer may be, and how many keys are
    # taken from it (a token that names none is tried with each).
    issuer_keys_s: float = 3600.0
    issuer_keys_pause_s: float = 30.0
    issuer_keys_timeout_s: float = 5.0
    issuer_keys_bytes_max: int = 256 * KIB
    issuer_keys_max: int = 32
    # Accounts and links of a server without a store: some 50 MB.
    records_in_memory_max: int = 100_000
    # How long clients and rooms have after SIGTERM before the server ends all the same.
    drain_s: float = 10.0
    # Events kept for readers that come back after a break.
    events_kept_max: int = 4_096
    # Lines of the log about the same refusal or the same failure; how many more there were is told in one. Whoever can
    # cause a line must not be able to fill the disk.
    log_lines_per_s: int = 5
    # Lines of the log about events of one kind that are in order, such as players who come and go; how many more there
    # were is told in one. Who wants every event reads them from the API or with server.on.
    log_events_per_s: int = 50
    # The packet log: sessions and addresses that it follows at a time, for how long unless told otherwise and at most,
    # and how much of a payload and of its frames it shows. What is followed for a day has been forgotten. A payload
    # that is longer, or has more frames, than may be read is shown by its first bytes only: to tell its secrets from
    # the rest takes longer than the games should wait.
    packet_targets_max: int = 16
    packet_log_s: float = 600.0
    packet_log_max_s: float = 86_400.0
    packet_bytes_max: int = 512
    packet_frames_max: int = 16
    packet_read_bytes_max: int = 4 * KIB
    packet_read_frames_max: int = 64
    packet_lines_per_s: int = 1_000
    # What is shown to who watches a room: the longest payload that its messages are read from, and how large a room's
    # state may be as JSON. Both are made while the games wait.
    message_shown_bytes_max: int = 16 * KIB
    state_shown_bytes_max: int = 1 * MIB
    # How often rooms are asked whether they are well, and how long one may think about it.
    health_s: float = 10.0
    health_timeout_s: float = 5.0

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
