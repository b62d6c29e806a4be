"""The golden vectors: generated as committed, and true of our own codecs, channel, back-off and close codes."""

from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import pytest
from msgspec import Raw
from spec import generate

from holdfast.core.backoff import Backoff
from holdfast.core.channel import Channel
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.reasons import CLOSE_CODES, Reason, advice
from holdfast.schemas.frames import FromClient, FromServer
from tests.cases import every_case
from tests.core.vectors import VECTORS, Case, cases, codec_of, each, plain, readers

ENCODINGS = [(JSON, "json"), (MSGPACK, "msgpack")]


def encoded(case: Case, codec: Codec, key: str) -> bytes:
    return case[key].encode() if codec is JSON else bytes.fromhex(case[key])


def test_the_committed_files_are_what_the_generator_writes() -> None:
    committed = {file.relative_to(VECTORS).as_posix(): file.read_text("utf-8") for file in VECTORS.rglob("*.json")}

    assert committed == generate.files(), "run: python -m spec.generate"


def test_every_frame_has_a_vector_in_every_direction_it_goes() -> None:
    for side, frames in (("client", FromClient), ("server", FromServer)):
        seen = {case["frame"][0] for case in cases("frames.json") if case["direction"] in (side, "both")}

        assert seen == {frame.name for frame in get_args(frames)}


def test_no_case_has_the_name_of_another() -> None:
    for file in VECTORS.rglob("*.json"):
        found = cases(file.relative_to(VECTORS).as_posix())
        names = Counter((case["name"], case.get("direction"), case.get("dialect")) for case in found if "name" in case)
        assert [name for name, count in names.items() if count > 1] == []


@each("frames.json")
@every_case(("codec", "key"), ENCODINGS, ids=["json", "msgpack"])
def test_a_frame_is_read_and_written_as_the_vector_says(case: Case, codec: Codec, key: str) -> None:
    frame_bytes = encoded(case, codec, key)

    for read in readers(codec, case["direction"]):
        (frame,) = read(codec.encode([Raw(frame_bytes)]))

        assert frame.name == case["frame"][0]
        assert plain(codec, frame) == case["frame"]
        assert codec.encode(frame) == frame_bytes


@each("payloads.json")
@every_case(("codec", "key"), ENCODINGS, ids=["json", "msgpack"])
def test_a_payload_is_read_and_written_as_the_vector_says(case: Case, codec: Codec, key: str) -> None:
    payload = encoded(case, codec, key)

    for read in readers(codec, case["direction"]):
        frames = read(payload)

        assert [plain(codec, frame) for frame in frames] == case["frames"]
        assert codec.payload(*frames) == payload


@each("accepted.json")
def test_what_nobody_writes_so_is_still_read(case: Case) -> None:
    codec = codec_of(case)

    for read in readers(codec, case["direction"]):
        assert [plain(codec, frame) for frame in read(bytes.fromhex(case["hex"]))] == case["frames"]


@each("refused.json")
def test_what_is_not_a_payload_of_frames_is_refused(case: Case) -> None:
    for read in readers(codec_of(case), case["direction"]):
        with pytest.raises(ProtocolError) as refused:
            read(bytes.fromhex(case["hex"]))

        assert refused.value.reason == case["error"]


@pytest.mark.parametrize("file_name", ["accepted.json", "refused.json"])
def test_the_text_beside_a_hex_is_the_same(file_name: str) -> None:
    for case in cases(file_name):
        assert case.get("text", bytes.fromhex(case["hex"]).decode("latin-1")).encode("latin-1").hex() == case["hex"]


# Channels


def owes_no_more(channel: Channel) -> None:
    channel.ack_sent = channel.applied


def applied(channel: Channel, seq: int) -> None:
    channel.applied = seq


def or_sequence(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ProtocolError as error:
        return error.reason.value


STEPS: dict[str, Callable[..., Any]] = {
    "push": lambda channel, name, body: channel.push(name, body.encode()),
    "take": lambda channel: [[frame.seq, frame.type, bytes(frame.body).decode()] for frame in channel.take()],
    "ack": lambda channel, ack: or_sequence(lambda: (channel.acknowledge(ack), "ok")[1]),
    "resume": lambda channel, generation, received: channel.resume(generation, received),
    "is_full": lambda channel: channel.is_full,
    "accept": lambda channel, seq: or_sequence(lambda: "new" if channel.accept(seq) else "double"),
    "owes_ack": lambda channel: channel.owes_ack,
}
STEPS_WITHOUT_RESULT: dict[str, Callable[..., None]] = {
    "resync": Channel.resync,
    "applied": applied,
    "ack_sent": owes_no_more,
    "restart_inward": Channel.restart_inward,
    "skip_to": Channel.skip_to,
}


@every_case("script", cases("channels.json"), ids=lambda script: str(script["name"]))
def test_a_channel_does_what_its_script_says(script: Case) -> None:
    channel = Channel(1, Limits(**script["limits"]))

    for place, (name, *arguments) in enumerate(script["steps"]):
        where = f"step {place}: {name} {arguments}"
        if name == "state":
            assert {key: getattr(channel, key) for key in arguments[0]} == arguments[0], where
        elif name in STEPS_WITHOUT_RESULT:
            STEPS_WITHOUT_RESULT[name](channel, *arguments)
        else:
            assert STEPS[name](channel, *arguments[:-1]) == arguments[-1], where


# The rest


@every_case(
    "case",
    cases("backoff.json"),
    ids=lambda case: f"{case['attempt']}-{case['lost_s']}-{case['retry_after_s']}",
)
def test_a_client_waits_within_the_bounds(case: Case) -> None:
    waits = [
        Backoff().wait_s(case["attempt"], entropy, lost_s=case["lost_s"], retry_after_s=case["retry_after_s"])
        for entropy in (0.0, 0.5, 1 - 2**-53)
    ]

    assert waits[0] == case["at_least_s"]
    assert waits[1] == case["at_chance_half_s"]
    assert waits[1] < waits[2] <= case["below_s"]


@every_case("case", cases("closes.json"), ids=lambda case: str(case["code"]))
def test_a_close_code_tells_a_client_what_to_do(case: Case) -> None:
    assert advice(case["code"]).value == case["advice"]
    if case["reason"] is not None:
        assert CLOSE_CODES[Reason(case["reason"])] == case["code"]


def test_every_close_code_has_a_vector() -> None:
    seen = {case["reason"]: case["code"] for case in cases("closes.json") if case["reason"]}

    assert seen == {reason.value: code for reason, code in CLOSE_CODES.items()}
