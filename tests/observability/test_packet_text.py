"""A payload as it is shown: what is a secret is neither in its frames nor in its bytes, however it was encoded."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from holdfast import Limits
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.observability.packet_text import PacketReader, PacketText
from holdfast.schemas.frames import (
    Ack,
    Auth,
    BlockFrame,
    BlockMessage,
    Close,
    Data,
    Frame,
    Hello,
    Notice,
    Outcome,
    Position,
    Reply,
    Request,
    RequestProblem,
    Resume,
    Terms,
    Welcome,
)
from holdfast.schemas.room import RoomInfo

SECRET = "Tr0ub4dor-and-3"
BOTH = pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=lambda codec: codec.name)
TERMS = Terms(1, 2, 3, 4, 5.0, 6.0, 7.0)


def read(
    codec: Codec, payload: bytes, *, out: bool = False, stranger: bool = False, bytes_max: int = 4096
) -> PacketText:
    limits = Limits(packet_bytes_max=bytes_max, packet_frames_max=4)
    return PacketReader(codec, limits).read(payload, is_from_client=not out, is_before_sign_in=stranger)


def bytes_of(dump: list[str]) -> bytes:
    rows = [row for row in dump if not row.startswith("…")]
    return b"".join(bytes.fromhex(row[6 : row.index("|")]) for row in rows)


def everything(text: PacketText) -> bytes:
    return "\n".join([*text.frames, *text.dump]).encode() + bytes_of(text.dump)


@BOTH
def test_an_ask_and_its_answer_show_the_messages_in_them_and_no_secret(codec: Codec) -> None:
    def frame(name: str, body: Any) -> bytes:
        return codec.payload(Data(1, 7, 3, name, Raw(codec.encode(body))))

    asked = read(codec, frame("holdfast.ask", ["login", {"name": "ada", "password": SECRET}]))
    answer = {"seq": 7, "type": "welcome", "body": {"hp": 3, "token": SECRET}}
    answered = read(codec, frame("holdfast.answer", answer), out=True)
    nameless = read(codec, frame("holdfast.ask", ["login", ["ada", SECRET]]))
    nameless_answer = read(
        codec, frame("holdfast.answer", {"seq": 7, "type": "welcome", "body": [3, SECRET]}), out=True
    )
    malformed = read(codec, frame("holdfast.ask", ["login", "ada", SECRET]))

    assert 'type="holdfast.ask" body=["login", {"name": "ada", "password": "***"}]' in asked.frames[0]
    assert 'body={"seq": 7, "type": "welcome", "body": {"hp": 3, "token": "***"}}' in answered.frames[0]
    assert 'body=["login", ["***", "***"]]' in nameless.frames[0]
    assert '"body": [3, "***"]}' in nameless_answer.frames[0]
    for text in (asked, answered, nameless, nameless_answer, malformed):
        assert SECRET.encode() not in everything(text)


@BOTH
def test_a_payload_is_shown_by_frame_and_field_and_then_by_its_bytes(codec: Codec) -> None:
    body = Raw(codec.encode({"x": 1.5, "text": "hi"}))
    payload = codec.payload(Data(1, 7, 3, "move", body), Ack(1, 4))

    text = read(codec, payload)

    assert text.frames == [
        'data channel=1 seq=7 ack=3 type="move" body={"x": 1.5, "text": "hi"}',
        "ack channel=1 ack=4",
    ]
    assert bytes_of(text.dump) == payload
    assert len(text.dump) == -(-len(payload) // 16)


def test_a_row_has_sixteen_bytes_and_their_letters() -> None:
    text = read(MSGPACK, MSGPACK.payload(Request(1, "join", Raw(MSGPACK.encode({"room": "r-1"})))))

    assert text.dump == [
        "0000  91 94 a7 72 65 71 75 65 73 74 01 a4 6a 6f 69 6e  |...request..join|",
        "0010  81 a4 72 6f 6f 6d a3 72 2d 31                    |..room.r-1|",
    ]


@BOTH
@pytest.mark.parametrize(
    ("frame", "is_out"),
    [
        (Hello(Auth("password", SECRET)), False),
        (Hello(None, Resume("s1", SECRET, [Position(1, 1, 5)])), False),
        (Hello(Auth("guest", f"ann:{SECRET}"), Resume("s1", SECRET)), False),
        (Welcome("s1", "ann", SECRET, Outcome("new"), TERMS), True),
        (Welcome("s1", "ann", "t", Outcome("new"), TERMS, credential=SECRET), True),
        (Request(1, "join", Raw(b"")), False),
        (Request(1, "link", Raw(b"")), False),
        (Data(1, 1, 0, "login", Raw(b"")), False),
        (Reply(1, {"ticket": SECRET}), True),
        (Reply(1, {"player": "ann", "token": SECRET}), True),
        (Reply(1, RoomInfo("r1", "hall", 1, 2, "lobby", {}, code=SECRET)), True),
        (Notice("placement", "p", {"room": {"id": "r1", "code": SECRET}}), True),
    ],
)
def test_a_secret_is_masked_in_its_frame_and_hides_the_bytes(codec: Codec, frame: Frame, *, is_out: bool) -> None:
    if isinstance(frame, Request | Data):
        # Raw bytes depend on the codec.
        inner = Raw(codec.encode({"user": "ann", "password": SECRET, "again": [{"old_password": SECRET}]}))
        frame = msgspec.structs.replace(frame, **{frame.__struct_fields__[-1]: inner})
    payload = codec.payload(frame)

    text = read(codec, payload, out=is_out)

    assert SECRET.encode() not in everything(text)
    assert "***" in text.frames[0]
    assert frame.name.encode() in bytes_of(text.dump)
    assert len(bytes_of(text.dump)) < 20


@BOTH
def test_codes_of_refusals_are_shown_and_codes_of_rooms_are_not(codec: Codec) -> None:
    refusal = read(codec, codec.payload(Reply(1, problem=RequestProblem("room_full", "no seat"))), out=True)
    keys = read(codec, codec.payload(Data(1, 1, 0, "key", Raw(codec.encode({"code": 37})))))
    join = read(codec, codec.payload(Request(1, "join", Raw(codec.encode({"code": "QXJ2KP"})))))

    assert "room_full" in refusal.frames[0]
    assert b"room_full" in bytes_of(refusal.dump)
    assert '"code": 37' in keys.frames[0]
    assert b"QXJ2KP" not in everything(join)


@BOTH
def test_a_block_shows_its_messages_as_if_each_had_come_alone(codec: Codec) -> None:
    bodies = [("key", {"who": "ada", "token": SECRET}), ("login", ["ann", 42.5, SECRET])]
    messages = [BlockMessage(name, Raw(codec.encode(body))) for name, body in bodies]

    text = read(codec, codec.payload(BlockFrame(1, 1, 0, messages)), out=True)

    assert 'messages=[["key", {"who": "ada", "token": "***"}], ["login", ["***", 42.5, "***"]]]' in text.frames[0]
    assert SECRET.encode() not in everything(text)


@BOTH
def test_messages_without_names_show_their_numbers_only(codec: Codec) -> None:
    body = Raw(codec.encode(["ann", SECRET, 42.5, [7]]))

    text = read(codec, codec.payload(Data(1, 1, 0, "login", body)))

    assert 'body=["***", "***", 42.5, [7]]' in text.frames[0]
    assert SECRET.encode() not in everything(text)


@pytest.mark.parametrize(
    "payload",
    [
        # Escapes, spaces and names that are there twice: legal JSON, and not as we would write it.
        b'[ ["hello", {"scheme": "password", "credential": "Tr0ub4dor-and-3"}] ]',
        b'[["hello",{"scheme":"password","credential":"Tr0ub4dor\\u002dand-3"}]]',
        b'[["hello",{"credential":"Tr0ub4dor-and-3","credential":""}]]',
        b'[["request",1,"join",{"password":"Tr0ub4dor-and-3","password":""}]]',
        b'[["request",1,"join",{"room":"r","password":"Tr0ub4dor-and-3" }]]',
        # Where nobody would look for it.
        b'[["hello",{"scheme":"password","pass":"Tr0ub4dor-and-3"}]]',
        b'[["hello",{"scheme":"guest","Tr0ub4dor-and-3":true}]]',
        b'[["hello",null,{"session":"s","token":"t"},"","Tr0ub4dor-and-3"]]',
        b'[["ack",1,1],["hello",null,{"session":"s","token":"t","more":["Tr0ub4dor-and-3"]}]]',
    ],
)
def test_a_secret_that_is_encoded_in_another_way_is_not_shown_either(payload: bytes) -> None:
    JSON.from_client(payload)

    text = read(JSON, payload)

    shown = everything(text)
    assert b"Tr0ub4dor" not in shown
    assert b"u002d" not in shown


@pytest.mark.parametrize("value", [12345678, 2.5, [12345678], {"a": 12345678}])
def test_a_secret_may_be_a_number(value: Any) -> None:
    payload = MSGPACK.payload(Data(1, 1, 0, "open", Raw(MSGPACK.encode({"pin": value, "room": "r1"}))))

    text = read(MSGPACK, payload)

    assert "12345678" not in str(text)
    assert b"r1" not in bytes_of(text.dump)
    assert '"room": "r1"' in text.frames[0]


@BOTH
def test_words_about_secrets_hide_nothing_in_a_payload_that_is_encoded_as_ours(codec: Codec) -> None:
    payload = codec.payload(Data(1, 1, 0, "say", Raw(codec.encode({"text": "what is my password?"}))))

    assert bytes_of(read(codec, payload).dump) == payload
    assert bytes_of(read(codec, payload, out=True).dump) == payload


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (SECRET.encode(), b""),
        (b'"Tr0ub4dor-and-3"', b""),
        (MSGPACK.encode(SECRET), b""),
        (b'[["hello",{"credential":"Tr0ub4dor-and-3"', b'[["hello"'),
        (b'[["hello","Tr0ub4dor-and-3"]]', b'[["hello"'),
        (b'[["Tr0ub4dor-and-3"]]', b"[["),
        (b'[["helloTr0ub4dor-and-3"]]', b"[["),
        (MSGPACK.payload(Hello(Auth("guest", SECRET)))[:-1], b"\x91\x96\xa5hello"),
        (MSGPACK.encode([["hello", SECRET]]), b"\x91\x92\xa5hello"),
        (MSGPACK.encode([["request", 1, SECRET]]), b"\x91\x93\xa7request"),
        (MSGPACK.encode([[SECRET]]), b"\x91\x91"),
        (b"[" * 3000 + SECRET.encode(), b"[[[["),
        (b"", b""),
    ],
)
def test_of_what_cannot_be_read_only_what_no_secret_begins_with_is_shown(payload: bytes, shown: bytes) -> None:
    codec = JSON if payload[:1] in {b"[", b'"', b"T"} else MSGPACK

    text = read(codec, payload, stranger=True)

    assert text.frames == ["(not a payload of frames)"]
    assert bytes_of(text.dump) == shown
    assert text.dump[-1] == f"… {len(payload) - len(shown)} bytes are not shown: there may be a secret among them"


@BOTH
def test_what_an_unauthenticated_client_is_told_may_repeat_what_it_said(codec: Codec) -> None:
    payload = codec.payload(Close(4400, "protocol", f"not a payload of frames: Invalid value '{SECRET}'"))

    assert SECRET.encode() not in everything(read(codec, payload, out=True, stranger=True))
    assert SECRET.encode() in everything(read(codec, payload, out=True))


@BOTH
def test_what_is_long_is_cut(codec: Codec) -> None:
    frames = [Data(1, seq, 0, "say", Raw(codec.encode({"text": "a" * 100}))) for seq in range(1, 8)]
    payload = codec.payload(*frames)

    text = read(codec, payload, bytes_max=32)

    assert len(text.frames) == 5
    assert text.frames[-1] == "… 3 more frames"
    assert all(len(frame) < 100 for frame in text.frames)
    assert text.dump[-1] == f"… {len(payload) - 32} more bytes"
    assert bytes_of(text.dump) == payload[:32]


@BOTH
def test_what_is_too_long_is_not_read_at_all(codec: Codec) -> None:
    frame = Data(1, 1, 0, "say", Raw(codec.encode({"text": "a" * 100, "password": SECRET})))
    most = Limits().packet_read_bytes_max
    long, short = codec.payload(*[frame] * 60), codec.payload(*[frame] * 5)

    text = read(codec, long)

    assert len(short) < most < len(long)
    assert read(codec, short).frames[0].startswith("data channel=1")
    assert text.frames == ["(too long to be decoded)"]
    assert len(bytes_of(text.dump)) < 20
    assert text.dump[-1].endswith("bytes are not shown: there may be a secret among them")


@BOTH
def test_nor_is_what_has_too_many_frames(codec: Codec) -> None:
    most = Limits().packet_read_frames_max
    acks = [Ack(1, 1)] * (most + 1)

    assert read(codec, codec.payload(*acks)).frames == ["(too long to be decoded)"]
    assert read(codec, codec.payload(*acks[1:])).frames[-1] == f"… {most - 4} more frames"


@pytest.mark.parametrize(
    ("key", "shown"), [((1, "a"), "(1, 'a')"), (b"\xff", "b'\\\\xff'"), (7, "7"), (None, "None"), (2.5, "2.5")]
)
def test_a_key_that_is_no_text_is_shown_as_python_writes_it(key: Any, shown: str) -> None:
    body = Raw(MSGPACK.encode({"around": [{key: "here"}]}))

    text = read(MSGPACK, MSGPACK.payload(Data(1, 1, 0, "say", body)))

    assert f'body={{"around": [{{"{shown}": "here"}}]}}' in text.frames[0]


def test_nothing_that_a_player_writes_steers_a_terminal() -> None:
    payload = MSGPACK.payload(Data(1, 1, 0, "say", Raw(MSGPACK.encode({"text": "\x1b[2J\n\u202e"}))))

    text = read(MSGPACK, payload)

    assert all(line.isascii() and line.isprintable() for line in [*text.frames, *text.dump])


TEXT = st.text(min_size=1, max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def hidden_in(value: Any, secret: Any) -> Any:
    """The same, with the secret under a name of secrets in every mapping."""
    match value:
        case dict():
            return {**{name: hidden_in(each, secret) for name, each in value.items()}, "password": secret}
        case list():
            return [hidden_in(each, secret) for each in value]
        case _:
            return value


@pytest.mark.parametrize("how", ["ours", "spaced", "escaped", "packed wide"])
@given(value=st.dictionaries(TEXT, VALUES, max_size=4), tail=st.text(max_size=6))
def test_wherever_a_secret_stands_and_however_it_is_written_it_is_not_shown(
    how: str, value: dict[str, Any], tail: str
) -> None:
    secret = f"§ecret{tail}"
    arguments = hidden_in(value, secret)
    match how:
        case "ours":
            codec, payload = MSGPACK, MSGPACK.payload(Request(1, "join", Raw(MSGPACK.encode(arguments))))
        case "spaced":
            codec, payload = JSON, json.dumps([["request", 1, "join", arguments]], ensure_ascii=False).encode()
        case "escaped":
            codec, payload = JSON, json.dumps([["request", 1, "join", arguments]]).encode()
        case _:
            # Numbers as other languages write them: eight bytes each.
            head = b"\x91\x94\xa7request\xd3\x00\x00\x00\x00\x00\x00\x00\x01\xa4join"
            codec, payload = MSGPACK, head + MSGPACK.encode(arguments)

    text = read(codec, payload)

    shown = everything(text)
    assert "§ecret".encode() not in shown
    assert b"\\u00a7ecret" not in shown
    assert text.frames[0].startswith("request id=1")
