"""Frames and payloads as they are written, by hand, as JSON values: (name, direction, value)."""

from typing import Any

NUMBER_MAX = 2**53 - 1

TERMS = {
    "payload_bytes_max": 65536,
    "window_messages_max": 1024,
    "window_bytes_max": 262144,
    "requests_in_flight_max": 16,
    "ping_s": 5.0,
    "silence_s": 16.0,
    "grace_s": 30.0,
}
# What a token looks like: 32 bytes in URL-safe base64 without padding.
LETTERS = "3q2-7w" + "A" * 37
ROOM = {
    "id": "VJ8y1cOaGq2x",
    "kind": "arena",
    "players": 1,
    "max_players": 8,
    "phase": "lobby",
    "properties": {"map": "desert", "ranked": True, "level": 3},
}
# What its members see of it: keys that say what is not told otherwise are left out.
OWN_ROOM = {
    **ROOM,
    "name": "Ada's",
    "open_seats": 7,
    "visibility": "private",
    "has_password": True,
    "code": "H7KQ2M",
    "creator": "guest-ada",
    "host": "guest-ada",
    "created_at": 1760000000.25,
    "version": 3,
}
PLACEMENT = {
    "id": "match-17",
    "queue": "europe",
    "status": "pending",
    "players": ["guest-ada", "guest-bob"],
    "started_at": 1760000000.25,
}

FRAMES: list[tuple[str, str, list[Any]]] = [
    ("sign in as a new guest", "client", ["hello", {}, None, ""]),
    (
        "sign in with a credential",
        "client",
        ["hello", {"scheme": "jwt", "credential": "eyJ0.eyJz.c2ln"}, None, "game 1.2"],
    ),
    (
        "come back without a seat",
        "client",
        ["hello", None, {"session": "Zk3f", "token": LETTERS, "positions": []}, "x"],
    ),
    (
        "come back to a seat, else sign in",
        "client",
        [
            "hello",
            {"credential": "guest-ada.c2VjcmV0"},
            {
                "session": "Zk3f",
                "token": LETTERS,
                "positions": [{"channel": 1, "generation": 1, "received": 41, "acked": 7}],
            },
            "holdfast-ts 0.1",
        ],
    ),
    (
        "come back without memory of the seat",
        "client",
        [
            "hello",
            None,
            {"session": "Zk3f", "token": LETTERS, "positions": [{"channel": 2, "generation": 3}]},
            "",
        ],
    ),
    (
        "welcome a new guest",
        "server",
        ["welcome", "Zk3f", "guest-ada", LETTERS, {"kind": "new"}, TERMS, [], 0, "guest-ada.c2VjcmV0"],
    ),
    (
        "welcome back, messages follow",
        "server",
        [
            "welcome",
            "Zk3f",
            "guest-ada",
            LETTERS,
            {"kind": "resumed", "replayed": 3},
            TERMS,
            [{"channel": 1, "generation": 1, "applied": 7, "room": "VJ8y1cOaGq2x", "kind": "arena"}],
            2,
            "",
        ],
    ),
    (
        "welcome back, the state follows",
        "server",
        [
            "welcome",
            "Zk3f",
            "guest-ada",
            LETTERS,
            {"kind": "resynced"},
            TERMS,
            [
                {"channel": 1, "generation": 1, "applied": 9, "room": "", "kind": ""},
                {"channel": 2, "generation": 2, "applied": 0, "room": "VJ8y1cOaGq2x", "kind": "arena"},
            ],
            5,
            "",
        ],
    ),
    (
        "welcome back to a room that came back from a checkpoint",
        "server",
        [
            "welcome",
            "Zk3f",
            "guest-ada",
            LETTERS,
            {"kind": "resynced", "age_s": 4.25},
            TERMS,
            [{"channel": 2, "generation": 2, "applied": 7, "room": "VJ8y1cOaGq2x", "kind": "arena"}],
            5,
            "",
        ],
    ),
    (
        "welcome back while the room is busy with what was sent",
        "server",
        [
            "welcome",
            "Zk3f",
            "guest-ada",
            LETTERS,
            {"kind": "resumed"},
            TERMS,
            [
                {
                    "channel": 2,
                    "generation": 1,
                    "applied": 5,
                    "room": "VJ8y1cOaGq2x",
                    "kind": "arena",
                    "accepted": 8,
                }
            ],
            5,
            "",
        ],
    ),
    (
        "welcome instead of a session that is gone",
        "server",
        [
            "welcome",
            "q0Xe",
            "guest-ada",
            LETTERS,
            {"kind": "reset", "reason": "expired"},
            TERMS,
            [],
            0,
            "guest-ada.c2VjcmV0",
        ],
    ),
    (
        "ask for a room",
        "client",
        ["request", 1, "create", {"kind": "arena", "properties": {"map": "desert"}, "max_players": 4}],
    ),
    ("ask for a seat", "client", ["request", 2, "join", {"room": "VJ8y1cOaGq2x"}]),
    (
        "ask for a seat by code",
        "client",
        ["request", 3, "join", {"code": "H7KQ2M", "password": "open sesame"}],
    ),
    (
        "ask for a seat, and say which messages one was made for",
        "client",
        ["request", 4, "join_or_create", {"kind": "arena", "message_version": "414aea9d.1XrU3WWCG6ck"}],
    ),
    (
        "ask for a page of rooms",
        "client",
        [
            "request",
            4,
            "search",
            {
                "kind": "arena",
                "where": "properties.level >= 2 AND players < 4",
                "order_by": ["players desc"],
                "limit": 2,
            },
        ],
    ),
    ("ask for a search that goes on", "client", ["request", 5, "watch", {"id": "w1", "kind": "arena"}]),
    (
        "ask for seats for a party",
        "client",
        ["request", 6, "reserve", {"room": "VJ8y1cOaGq2x", "players": ["guest-ada", "guest-bob"], "ttl_s": 90.0}],
    ),
    ("ask for a place in line", "client", ["request", 7, "wait", {"room": "VJ8y1cOaGq2x"}]),
    (
        "ask for a change",
        "client",
        ["request", 8, "update", {"room": "VJ8y1cOaGq2x", "set": {"level": 4}, "locked": False, "if_version": 3}],
    ),
    (
        "ask for a placement",
        "client",
        [
            "request",
            9,
            "start_placement",
            {
                "queue": "europe",
                "kind": "arena",
                "players": [{"id": "guest-ada", "latencies_ms": {"eu": 21.5}}, {"id": "guest-bob"}],
                "id": "match-17",
            },
        ],
    ),
    ("ask with the last id there is", "client", ["request", NUMBER_MAX, "leave", {}]),
    ("answer with a room", "server", ["reply", 1, ROOM, None]),
    ("answer with a room of one's own", "server", ["reply", 1, OWN_ROOM, None]),
    ("answer with rooms", "server", ["reply", 3, [ROOM], None]),
    ("answer with a page", "server", ["reply", 4, {"rooms": [ROOM], "cursor": "WzEsMl0"}, None]),
    ("answer with the last page", "server", ["reply", 5, {"rooms": []}, None]),
    (
        "answer with a reservation",
        "server",
        ["reply", 6, {"room": "VJ8y1cOaGq2x", "players": ["guest-ada", "guest-bob"], "expires_in_s": 90.0}, None],
    ),
    ("answer with a place in line", "server", ["reply", 7, {"room": "VJ8y1cOaGq2x", "position": 2}, None]),
    ("answer with a placement", "server", ["reply", 9, PLACEMENT, None]),
    ("answer that it is done", "server", ["reply", 4, None, None]),
    (
        "answer that it is refused",
        "server",
        ["reply", 2, None, {"code": "room_full", "message": "all 8 seats are taken or held"}],
    ),
    ("the first message", "both", ["data", 1, 1, 0, "move", {"x": 1.5, "y": -2.25}]),
    (
        "a message of another script",
        "both",
        ["data", 1, 2, 1, "chat", {"text": "grüße, 世界 🎲", "quote": '"\\/\b\f\n\r\t'}],
    ),
    ("a message with the largest numbers", "both", ["data", NUMBER_MAX, NUMBER_MAX, NUMBER_MAX, "x", NUMBER_MAX]),
    ("a message that is nothing", "both", ["data", 3, 17, 0, "nothing", None]),
    (
        "a message that is a list",
        "both",
        ["data", 3, 18, 0, "list", [True, False, None, 0, -1, 127, 128, -32, -33, 65535, 65536, 0.5]],
    ),
    ("a message that is deep", "both", ["data", 3, 19, 0, "deep", {"a": {"b": {"c": [[[{"d": []}]]]}}}]),
    ("a name of 64 characters", "both", ["data", 3, 20, 0, "n" * 64, {}]),
    ("a name of 64 characters of 4 bytes", "both", ["data", 3, 21, 0, "\N{GAME DIE}" * 64, {}]),
    (
        "a message was refused",
        "server",
        [
            "data",
            1,
            5,
            4,
            "holdfast.refused",
            {"seq": 4, "type": "move", "code": "invalid", "message": "Object missing required field `y`"},
        ],
    ),
    ("the seat is gone", "server", ["data", 1, 6, 4, "holdfast.left", {"reason": "kicked", "message": "be kind"}]),
    ("the entry was changed", "server", ["data", 1, 7, 4, "holdfast.updated", {"room": OWN_ROOM}]),
    ("another player is the host", "server", ["data", 1, 8, 4, "holdfast.host", {"player": "guest-bob"}]),
    ("nobody is the host", "server", ["data", 1, 9, 4, "holdfast.host", {"player": ""}]),
    ("the newest position", "both", ["latest", 1, "position", {"x": 0.125, "y": 3}]),
    ("an acknowledgement", "both", ["ack", 1, 32]),
    ("an acknowledgement of nothing", "both", ["ack", 0, 0]),
    ("the first ping", "server", ["ping", 1, 0, 0, 0.0]),
    ("a ping with news", "server", ["ping", 12, 1, 41, 23.125]),
    ("the answer to the first ping", "client", ["pong", 1, 0, 0]),
    ("the answer with news", "client", ["pong", 12, 1, 7]),
    ("a seat is taken", "server", ["seat", "joined", 1, 1, "VJ8y1cOaGq2x", "arena"]),
    (
        "rooms of a search that goes on have changed",
        "server",
        ["notice", "rooms", "w1", {"changed": [ROOM], "removed": ["Zt41p0QwLx8s"]}],
    ),
    (
        "a seat is offered",
        "server",
        ["notice", "offer", "VJ8y1cOaGq2x", {"room": "VJ8y1cOaGq2x", "position": 0, "expires_in_s": 60.0}],
    ),
    (
        "a placement is fulfilled",
        "server",
        [
            "notice",
            "placement",
            "match-17",
            {**PLACEMENT, "status": "fulfilled", "node": "n1", "room": ROOM, "ended_at": 1760000001.5},
        ],
    ),
    ("a notice of something newer", "server", ["notice", "weather", "", None]),
    ("go away without a word", "client", ["bye", ""]),
    ("go away with one", "client", ["bye", "good night"]),
    ("a farewell of 1024 characters", "client", ["bye", "z" * 1024]),
    ("close and come back", "server", ["close", 4012, "stopping", "the server is stopping", 1.0, ""]),
    ("close for good", "server", ["close", 4203, "kicked", "", 0.0, ""]),
    ("close with a refusal", "server", ["close", 4102, "refused", "members only", 0.0, "not_allowed"]),
]

PAYLOADS: list[tuple[str, str, list[list[Any]]]] = [
    ("no frame", "both", []),
    ("one frame", "both", [["ack", 1, 1]]),
    (
        "a seat and its first messages",
        "server",
        [
            ["reply", 1, ROOM, None],
            ["seat", "joined", 1, 1, "VJ8y1cOaGq2x", "arena"],
            ["data", 1, 1, 0, "state", {"players": ["guest-ada"]}],
            ["data", 1, 2, 0, "go", {}],
        ],
    ),
    (
        "what one turn produced",
        "client",
        [
            ["pong", 3, 1, 2],
            ["data", 1, 1, 2, "move", {"x": 1, "y": 2}],
            ["latest", 1, "aim", {"angle": 0.75}],
            ["request", 2, "leave", {}],
        ],
    ),
    (
        "the last words",
        "server",
        [
            ["data", 1, 9, 4, "holdfast.left", {"reason": "room_closed", "message": ""}],
            ["close", 4012, "stopping", "", 1.0, ""],
        ],
    ),
    ("15 frames: the most with a one-byte head in MessagePack", "both", [["ack", 1, n] for n in range(15)]),
    ("16 frames: the least with a three-byte head in MessagePack", "both", [["ack", 1, n] for n in range(16)]),
]
