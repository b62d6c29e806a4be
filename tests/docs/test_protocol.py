"""docs/protocol.md is true: its tables are the code's, its numbers the defaults, and its conversation takes place."""

import json
import re
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import msgspec.inspect as mi

from holdfast import Limits, Server, Tcp, WebSocket
from holdfast.client.connector import SETTLED_S
from holdfast.client.subscriptions import PlacementProgress, WaitlistPlace, WatchedRooms
from holdfast.core.backoff import FIRST_S, LONG_OUTAGE_S, LONGEST_S, STRETCH_MAX
from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.codec import JSON
from holdfast.core.codecs import CODECS
from holdfast.core.errors import Refused
from holdfast.core.messages import Announcement, HostChanged, MessageAnswered, MessageRefused, RoomUpdated, SeatLeft
from holdfast.core.reasons import CLOSE_CODES, Advice, Reason, advice
from holdfast.schemas.account import LinkInfo
from holdfast.schemas.frames import (
    FRAME_HEAD_BYTES,
    NAME_CHARS_MAX,
    NUMBER_MAX,
    TEXT_CHARS_MAX,
    Auth,
    BlockMessage,
    ChannelInfo,
    Datagrams,
    FromClient,
    FromServer,
    Outcome,
    Position,
    RequestProblem,
    Resume,
    Terms,
)
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import ReservationInfo, WaitInfo
from holdfast.schemas.requests import REQUESTS, PlacedPlayer
from holdfast.schemas.room import Properties, RoomInfo, RoomPage
from holdfast.search import parse_query
from holdfast.search.language import PROPERTIES, TERMS, Operator
from holdfast.transports import deflate
from tests.cases import every_case
from tests.server.foreign import Door, Foreigner

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
LIMITS = Limits()

FRAMES = {frame.name: frame for frame in (*get_args(FromClient), *get_args(FromServer))}
PARTS = (Auth, Resume, Position, Outcome, Terms, ChannelInfo, Datagrams, RequestProblem, BlockMessage, PlacedPlayer)
ANSWERS = (RoomInfo, RoomPage, ReservationInfo, WaitInfo, PlacementInfo, LinkInfo)
OBJECTS = {each.__name__: each for each in (*PARTS, *ANSWERS)}
_MESSAGES = (MessageRefused, MessageAnswered, SeatLeft, RoomUpdated, HostChanged, Announcement)
MESSAGES = {each.wire_name: each for each in _MESSAGES}
ARGUMENTS = REQUESTS
STRUCTS: dict[str, type[msgspec.Struct]] = {**FRAMES, **OBJECTS, **MESSAGES, **ARGUMENTS}


def sections(page: str) -> dict[str, str]:
    """The text below each heading, up to the next one of any level."""
    parts = re.split(r"^#{1,4} (.+)$", page, flags=re.MULTILINE)[1:]
    assert len(set(parts[::2])) == len(parts[::2]), "two headings are the same"
    return dict(zip(parts[::2], parts[1::2], strict=True))


SECTIONS = sections(PAGE)


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each table, without its head."""
    found = re.findall(r"(?:^\|.*\|\n)+", text + "\n", flags=re.MULTILINE)
    return [[[cell.strip() for cell in row.strip("|").split(" | ")] for row in each.splitlines()[2:]] for each in found]


def table(heading: str, number: int = 0) -> list[list[str]]:
    return [[cell.strip("| ") for cell in row] for row in tables(SECTIONS[heading])[number]]


# Fields


def type_text(kind: mi.Type) -> str:
    """A type in the words of the page."""
    match kind:
        case mi.Metadata():
            return type_text(kind.type)
        case mi.IntType():
            return integer_text(kind)
        case mi.FloatType(gt=above, le=most) if above is not None:
            return f"float above {above:g}, at most {most:g}"
        case mi.StrType(min_length=1, max_length=most):
            return "name" if most == NAME_CHARS_MAX else f"string of 1 to {most} characters"
        case mi.StrType(max_length=most) if most == TEXT_CHARS_MAX:
            return "text"
        case mi.StrType(max_length=most):
            return "string" if most is None else f"string of at most {most} characters"
        case mi.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values)
        case mi.ListType(item_type=item, max_length=most):
            return f"array of {'' if most is None else f'at most {most} '}{type_text(item)}"
        case mi.DictType(max_length=most):
            return "object" if most is None else f"object of at most {most} keys"
        case mi.UnionType(types=types):
            return " or ".join(sorted((type_text(each) for each in types), key=lambda word: word == "null"))
        case mi.StructType(cls=cls):
            return cls.__name__
        case _:
            words_by_type = {
                mi.BoolType: "boolean",
                mi.FloatType: "float",
                mi.RawType: "body",
                mi.AnyType: "any",
                mi.NoneType: "null",
            }
            return words_by_type[type(kind)]


def integer_text(kind: mi.IntType) -> str:
    match kind.ge, kind.le:
        case None, None:
            return "integer"
        case None, most:
            return f"integer of at most {most}"
        case 0, most if most == NUMBER_MAX:
            return "number"
        case 1, most if most == NUMBER_MAX:
            return "ordinal"
        case least, most:
            return f"integer from {least} to {most}"


def default_text(field: mi.Field) -> str:
    if field.required:
        return "required"
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return "null" if default is None else f"`{json.dumps(default)}`"


@every_case("name", STRUCTS)
def test_every_field_stands_in_its_place_with_its_type_and_its_default(name: str) -> None:
    info = msgspec.inspect.type_info(STRUCTS[name])
    assert isinstance(info, mi.StructType)
    # In a table without rows there is nothing but its head.
    rows = table(name) if tables(SECTIONS[name]) else []

    assert [row[:3] for row in rows] == [
        [f"`{field.encode_name}`", type_text(field.type), default_text(field)] for field in info.fields
    ]
    assert all(row[3] for row in rows), "each has a meaning"


def test_every_frame_stands_on_its_side() -> None:
    client = PAGE.index("## Frames from the client")
    server = PAGE.index("## Frames from the server")

    for frame in get_args(FromClient):
        assert client < PAGE.index(f"\n### {frame.name}\n") < server
    for name in {frame.name for frame in get_args(FromServer)} - {frame.name for frame in get_args(FromClient)}:
        assert server < PAGE.index(f"\n### {name}\n")


def test_every_operation_is_described() -> None:
    first, last = PAGE.index("\n## Requests\n"), PAGE.index("\n## Built-in messages\n")

    assert all(first < PAGE.index(f"\n### {name}\n") < last for name in ARGUMENTS)


def test_every_operation_says_what_it_returns() -> None:
    for name in ARGUMENTS:
        assert re.search(r"\bReturns\b", SECTIONS[name]), name


def test_every_topic_of_a_notice_is_explained() -> None:
    rows = [row[0] for row in table("Notices")]

    assert rows == [
        f"`{topic}`" for topic in (WatchedRooms.topic, WaitlistPlace.topic, PlacementProgress.topic, "stopping")
    ]


def test_every_term_and_operator_of_a_search_is_named() -> None:
    words = set(re.findall(r"`([^`]+)`", SECTIONS["Query language"]))

    assert words >= {*TERMS, f"{PROPERTIES}.key", *(operator.value for operator in Operator)}


def test_the_examples_of_searches_can_be_read() -> None:
    examples = re.findall(r"^    (.+)$", SECTIONS["Query language"], flags=re.MULTILINE)

    assert len(examples) >= 3
    for example in examples:
        parse_query(example, ["players desc", "properties.level"], kind="arena")


def test_every_link_within_the_page_leads_somewhere() -> None:
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in SECTIONS}

    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors


def test_every_link_to_a_file_leads_somewhere() -> None:
    for target in re.findall(r"\]\(((?!#|https?:)[^)#]+)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / target).exists(), target


# Words and numbers


def test_every_codec_is_named() -> None:
    assert [row[0] for row in table("Transports")] == [f"`{name}`" for name in CODECS]


WHAT_TO_DO = {Advice.RESUME: "resume", Advice.SIGN_IN: "sign in", Advice.STOP: "stop"}


def test_every_close_code_is_explained() -> None:
    rows = [row[:3] for row in table("Close codes", 1)]

    assert rows == [
        [str(code), f"`{reason.value}`", WHAT_TO_DO[advice(code)]]
        for reason, code in sorted(CLOSE_CODES.items(), key=lambda item: item[1])
    ]


def test_the_ranges_of_close_codes_say_what_to_do() -> None:
    meant: dict[int, str] = {}
    for codes, words in table("Close codes", 0)[:-1]:
        numbers = [int(number) for number in re.findall(r"\d+", codes)]
        what = re.findall(r"\*\*(.+?)\*\*", words)[0]
        meant |= dict.fromkeys(range(numbers[0], numbers[1] + 1) if "–" in codes else numbers, what)

    for code in range(1000, 5000):
        assert WHAT_TO_DO[advice(code)] == meant.get(code, "resume"), code


def test_every_other_reason_is_one_of_a_seat() -> None:
    assert {row[0].strip("`") for row in table("Seat reasons")} == {
        reason.value for reason in Reason if reason not in CLOSE_CODES
    }


def test_every_code_of_a_refusal_is_explained() -> None:
    codes = {"refused", *(each.code for each in Refused.__subclasses__() if each.__module__ == Refused.__module__)}

    assert {row[0].strip("`") for row in table("Refusal codes")} == codes | {"internal"}


def test_the_limits_are_the_defaults() -> None:
    defaults = asdict(LIMITS)
    rows = table("Limits")

    assert [row[1] for row in rows] == [str(defaults[row[0].strip("`")]) for row in rows]
    assert {f"`{name}`" for name in Terms.__struct_fields__ if name in defaults} <= {row[0] for row in rows}


def test_numbers_in_the_text_are_the_defaults() -> None:
    properties = mi.type_info(Properties)
    assert isinstance(properties, mi.DictType)
    properties_max = properties.max_length
    kept_mib = LIMITS.kept_bytes_max // (1024 * 1024)
    body_bytes_max = LIMITS.payload_bytes_max - FRAME_HEAD_BYTES
    for claim in (
        f"at most {LIMITS.hello_bytes_max} bytes, within {LIMITS.hello_s:g} s",
        f"keeps at most {LIMITS.kept_messages_max} messages or {kept_mib} MiB",
        f"Send an `ack` frame after {LIMITS.ack_messages} messages or half the window",
        f"after {LIMITS.ack_s:g} s (a server) or {LIMITS.client_ack_s:g} s (a client)",
        f"the last {LIMITS.replies_kept_max} replies are kept",
        f"the welcome a client waits {LIMITS.silence_s:g} s",
        f"for {LIMITS.close_s:g} s at most",
        f"at most {properties_max}, each with a name as its key; {LIMITS.properties_bytes_max} bytes",
        f"declares it, {LIMITS.options_bytes_max} bytes in MessagePack",
        f"shown to nobody: any data; {LIMITS.config_bytes_max} bytes in MessagePack",
        f"Leave {FRAME_HEAD_BYTES} bytes for a frame's head: bodies up to {body_bytes_max}",
        f"the bytes of its body plus {MESSAGE_OVERHEAD_BYTES}",
        f"1 … {NAME_CHARS_MAX} characters",
        f"0 … {TEXT_CHARS_MAX} characters",
        f"each counts its body and {MESSAGE_OVERHEAD_BYTES} more",
        f"retry_after_s + random() × min({LONGEST_S:g} × stretch, {FIRST_S:g} × 2^n)",
        f"stretch = min(max(1, lost_s / {LONG_OUTAGE_S:g}), {STRETCH_MAX:g})",
        f"welcome for {SETTLED_S:g} s",
    ):
        assert claim in " ".join(PAGE.split()), claim


def test_what_is_said_of_permessage_deflate_is_what_is_agreed_on() -> None:
    plain = deflate.agreed(["permessage-deflate; client_max_window_bits"])
    narrow = deflate.agreed(["permessage-deflate; server_max_window_bits=15"])

    assert plain is not None
    assert narrow is not None
    assert f"\n    Sec-WebSocket-Extensions: {plain.answer}\n" in SECTIONS["permessage-deflate"]
    assert narrow.answer == f"{plain.answer}; server_max_window_bits={deflate.WINDOW_BITS}"
    text = " ".join(SECTIONS["permessage-deflate"].split())
    assert f"the number it asks for, or {deflate.WINDOW_BITS} if that is less" in text
    assert f"those from {deflate.SMALL_BYTES} bytes on" in text
    assert deflate.agreed(["permessage-deflate; server_max_window_bits=8"]) is None
    assert "n + n/16 + 16 bytes" in text
    assert deflate.wire_bytes_max(65536) == 65536 + 65536 // 16 + 16


# The bytes of TCP


def test_the_bytes_of_a_tcp_handshake_are_as_shown() -> None:
    (block,) = re.findall(r"```hex\n(.+?)```", PAGE, flags=re.DOTALL)
    lines = [line.split() for line in block.splitlines()]
    payloads = [bytes.fromhex(body) for _, _, body in lines]

    assert [int(length, 16) for _, length, _ in lines] == [len(payload) for payload in payloads]
    assert payloads[0] == payloads[1] == JSON.name.encode()
    assert JSON.from_client(payloads[2])


# The conversation


class Block(NamedTuple):
    """One payload of the page."""

    speaker: str
    reconnects: bool
    text: str

    @property
    def frames(self) -> list[list[Any]]:
        frames: list[list[Any]] = json.loads(self.text)
        return frames


def blocks() -> list[Block]:
    found = re.findall(r"```json (client|server)( reconnects)?\n(.+?)```", PAGE, flags=re.DOTALL)
    return [Block(speaker, bool(reconnects), text) for speaker, reconnects, text in found]


def test_every_json_block_says_who_speaks() -> None:
    assert len(blocks()) == len(re.findall(r"```json", PAGE)) > 10


def test_every_json_block_is_a_payload() -> None:
    for block in blocks():
        read = JSON.from_client if block.speaker == "client" else JSON.from_server

        assert len(read(block.text.encode())) == len(block.frames)


def game() -> dict[str, Any]:
    """The names that the page's game defines."""
    (code,) = re.findall(r"```python\n(.+?)```", SECTIONS["Example session"], flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page is ours, and that its code runs is a claim of this test
    return names


class Names:
    """Which of a server's random names stand for those on the page."""

    def __init__(self) -> None:
        self._ours: dict[Any, Any] = {}

    def translated(self, value: Any) -> Any:
        """What the page says, with our names."""
        match value:
            case list():
                return [self.translated(each) for each in value]
            case dict():
                return {key: self.translated(each) for key, each in value.items()}
            case str() | float():
                return self._ours.get(value, value)
            case _:
                return value

    def learn(self, said: Any, heard: Any) -> None:
        """Take the welcome's and the seat's names, and what is random about a room, to stand for the page's."""
        places = {"welcome": (1, 2, 3, 8), "seat": (4,)}.get(said[0], ())
        for place in places:
            if said[place]:
                self._ours[said[place]] = heard[place]
        if said[0] == "reply" and "code" in (said[2] or {}):
            self._ours |= {said[2][key]: heard[2][key] for key in ("code", "created_at")}


async def hear(peer: Foreigner, names: Names, block: Block) -> None:
    """As many frames as the block has, of each name in its order; pings come when they will."""
    for name in dict.fromkeys(frame[0] for frame in block.frames if frame[0] != "ping"):
        said = [frame for frame in block.frames if frame[0] == name]
        heard = [await peer.hear_next(name) for _ in said]
        for each, other in zip(said, heard, strict=True):
            names.learn(each, other)
        assert heard == names.translated(said)


async def test_the_conversation_takes_place() -> None:
    names, played = Names(), game()
    async with Server([played["Arena"]], listen=[WebSocket(port=0), Tcp(port=0)]) as server, AsyncExitStack() as stack:
        door = Door("websocket", JSON.name)
        peer = await stack.enter_async_context(door.enter(server.addresses))
        for block in blocks():
            if block.reconnects:
                await peer.wire.hang_up()
                (room,) = server.rooms
                room.broadcast(played["Moved"]("guest-bob", 3.0, 4.0))
                peer = await stack.enter_async_context(door.enter(server.addresses))
            if block.speaker == "server":
                await hear(peer, names, block)
            elif frames := [frame for frame in block.frames if frame[0] != "pong"]:
                await peer.say(*names.translated(frames))
        assert await peer.hear_end() == (None, (4200, "bye"))
