"""Writes spec/vectors/*.json: `python -m spec.generate`. A test asserts that the committed files are what it writes.

What is meant is written by hand in the modules beside this one; only the bytes come from the codecs.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from holdfast.cli.proto_file import frames_file
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.protobuf import PROTOBUF
from holdfast.core.reasons import CLOSE_CODES, advice
from holdfast.schemas.frames import BlockFrame, Data, Frame, Latest, Notice, Reply, Request
from holdfast.state import SharedPlan, apply, encode_json, encode_msgpack
from holdfast.state.nodes import Changed
from holdfast.transports.udp.seal import FROM_CLIENT, DatagramKind, Seal
from spec.channels import CHANNEL_SCRIPTS
from spec.datagrams import DATAGRAM_ID, DATAGRAM_KEY, DATAGRAMS, refused_datagrams
from spec.inputs import ACCEPTED, REFUSED, REFUSED_BYTES, REFUSED_PROTOBUF
from spec.samples import FRAMES, PAYLOADS
from spec.state import CHANGES, MIRRORS, NODES, REFUSED_NODES

VECTORS = Path(__file__).parent / "vectors"
PROTO = Path(__file__).parent / "holdfast.proto"

_BACKOFF_FIRST_S, _BACKOFF_LONGEST_S, _BACKOFF_OUTAGE_S, _BACKOFF_STRETCH_MAX = 0.1, 1.0, 30.0, 15.0


def files() -> dict[str, str]:
    """Every generated file by name."""
    contents = {
        "frames.json": [_frame(*case) for case in FRAMES],
        "payloads.json": [_payload(*case) for case in PAYLOADS],
        "accepted.json": [_accepted(*case) for case in ACCEPTED],
        "refused.json": [*_refused_values(), *(_refused(*case) for case in REFUSED_BYTES)],
        "channels.json": CHANNEL_SCRIPTS,
        "backoff.json": list(_backoff()),
        "closes.json": _closes(),
        "datagrams.json": [*_datagrams(), *_refused_datagrams()],
        "protobuf/frames.json": [_protobuf_frame(*case) for case in FRAMES],
        "protobuf/refused.json": [_refused_protobuf(*case) for case in REFUSED_PROTOBUF],
        "state/nodes.json": [*(_node(*case) for case in NODES), *(_change(*case) for case in CHANGES)],
        "state/refused.json": [_refused_node(*case) for case in REFUSED_NODES],
        "state/mirrors.json": MIRRORS,
    }
    return {name: _pretty(cases) for name, cases in contents.items()}


def _pretty(cases: Iterable[Any]) -> str:
    """One case per line: a change of one case is a change of one line."""
    lines = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    return f"[\n{lines}\n]\n"


def _encoded(codec: Codec, frame: list[Any], direction: str) -> bytes:
    """The frame as we write it; what is written by hand must be that already."""
    plain = codec.encode(frame)
    decode = codec.from_server if direction == "server" else codec.from_client
    (decoded,) = decode(codec.encode([frame]))
    written = codec.encode(decoded)
    if written != plain:
        raise ValueError(f"{frame} is written {written!r}, not {plain!r}")
    return written


def _frame(name: str, direction: str, frame: list[Any]) -> dict[str, Any]:
    text, octets = _encoded(JSON, frame, direction), _encoded(MSGPACK, frame, direction)
    return {"name": name, "direction": direction, "frame": frame, "json": text.decode(), "msgpack": octets.hex()}


def _protobuf_frame(name: str, direction: str, frame: list[Any]) -> dict[str, Any]:
    """A payload of one frame; what is the body of a message in it is a `Value` here."""
    (read,) = (JSON.from_server if direction == "server" else JSON.from_client)(JSON.encode([frame]))
    octets = PROTOBUF.encode(as_values(read))
    return {"name": name, "direction": direction, "frame": frame, "hex": octets.hex()}


def as_values(frame: Frame) -> Frame:
    """The same frame, with its bodies as a `Value` each."""
    if isinstance(frame, BlockFrame):
        messages = [msgspec.structs.replace(each, body=_value(each.body)) for each in frame.messages]
        return msgspec.structs.replace(frame, messages=messages)
    bodies = {"body": frame.body} if isinstance(frame, Data | Latest | Notice) else {}
    if isinstance(frame, Request):
        bodies = {"arguments": frame.arguments}
    if isinstance(frame, Reply) and frame.result is not None:
        bodies = {"result": frame.result}
    return msgspec.structs.replace(frame, **{name: _value(body) for name, body in bodies.items()})


def _value(body: Any) -> Raw:
    return Raw(PROTOBUF.encode_any(msgspec.json.decode(body) if isinstance(body, Raw) else body))


def _refused_protobuf(name: str, direction: str, octets: bytes) -> dict[str, Any]:
    return {"name": name, "direction": direction, "hex": octets.hex(), "error": "protocol"}


def _payload(name: str, direction: str, frames: list[list[Any]]) -> dict[str, Any]:
    text, octets = (
        codec.encode([Raw(_encoded(codec, each, direction)) for each in frames]) for codec in (JSON, MSGPACK)
    )
    return {"name": name, "direction": direction, "frames": frames, "json": text.decode(), "msgpack": octets.hex()}


def _accepted(name: str, direction: str, dialect: str, octets: bytes, frames: list[list[Any]]) -> dict[str, Any]:
    return {"name": name, "direction": direction, "dialect": dialect, **_octets(octets), "frames": frames}


def _refused(name: str, direction: str, dialect: str, octets: bytes) -> dict[str, Any]:
    return {"name": name, "direction": direction, "dialect": dialect, **_octets(octets), "error": "protocol"}


def _refused_values() -> Iterable[dict[str, Any]]:
    for name, direction, payload in REFUSED:
        for codec in (JSON, MSGPACK):
            yield _refused(name, direction, codec.name, codec.encode(payload))


def _octets(octets: bytes) -> dict[str, str]:
    """The hex is the case; the text beside it, where there is one, is for readers."""
    try:
        text = octets.decode("ascii")
    except UnicodeDecodeError:
        return {"hex": octets.hex()}
    return {"hex": octets.hex(), "text": text} if text.isprintable() else {"hex": octets.hex()}


def _backoff() -> Iterable[dict[str, float]]:
    for retry_after_s, lost_s in ((0.0, 0.0), (0.0, 29.0), (0.0, 75.0), (0.0, 100_000.0), (2.5, 5.0)):
        longest_s = _BACKOFF_LONGEST_S * min(max(1.0, lost_s / _BACKOFF_OUTAGE_S), _BACKOFF_STRETCH_MAX)
        for attempt in (0, 1, 2, 3, 4, 5, 20, 1_000_000):
            ceiling_s = min(longest_s, _BACKOFF_FIRST_S * 2 ** min(attempt, 32))
            yield {
                "attempt": attempt,
                "lost_s": lost_s,
                "retry_after_s": retry_after_s,
                "at_least_s": retry_after_s,
                "below_s": retry_after_s + ceiling_s,
                "at_chance_half_s": retry_after_s + ceiling_s / 2,
            }


def _datagrams() -> Iterable[dict[str, Any]]:
    for name, kind, number, contents in DATAGRAMS:
        seal = Seal(DATAGRAM_KEY, DATAGRAM_ID, frozenset())
        seal.sent = number - 1
        yield {
            **_datagram_case(name, kind),
            "number": number,
            "contents": contents.hex(),
            "hex": seal.seal(kind, contents).hex(),
        }


def _refused_datagrams() -> Iterable[dict[str, Any]]:
    _, kind, number, contents = DATAGRAMS[0]
    seal = Seal(DATAGRAM_KEY, DATAGRAM_ID, frozenset())
    seal.sent = number - 1
    good = seal.seal(kind, contents)
    for name, octets in refused_datagrams(good):
        yield {**_datagram_case(name, kind), "hex": octets.hex(), "error": "refused"}


def _datagram_case(name: str, kind: DatagramKind) -> dict[str, Any]:
    direction = "client" if kind in FROM_CLIENT else "server"
    return {
        "name": name,
        "direction": direction,
        "kind": int(kind),
        "key": DATAGRAM_KEY.hex(),
        "id": DATAGRAM_ID.hex(),
    }


def _closes() -> list[dict[str, Any]]:
    ours = [
        {"code": code, "reason": reason.value, "advice": advice(code).value} for reason, code in CLOSE_CODES.items()
    ]
    others = (
        1000,
        1001,
        1002,
        1003,
        1006,
        1007,
        1008,
        1009,
        1010,
        1011,
        1012,
        1013,
        1015,
        3000,
        4099,
        4199,
        4299,
        4999,
    )
    return ours + [{"code": code, "reason": None, "advice": advice(code).value} for code in others]


def _node(name: str, before: Any, node: list[Any], after: Any, paths: list[list[Any]]) -> dict[str, Any]:
    text, octets = encode_json(node).decode(), encode_msgpack(node).hex()
    return {"name": name, "before": before, "json": text, "msgpack": octets, "after": after, "paths": paths}


def _change(name: str, before: Any, after: Any) -> dict[str, Any]:
    """What our own server writes for a change; it must be applied, and may be written in another way."""
    kind = type(before)
    plan = SharedPlan({"state": kind})
    node = plan.diff(plan.take(before), plan.take(after))
    assert node is not None
    plain_before, plain_after = ({"state": msgspec.to_builtins(each, str_keys=True)} for each in (before, after))
    mirror = json.loads(json.dumps(plain_before))
    changed: list[Changed] = []
    apply(mirror, json.loads(encode_json(node)), changed)
    assert mirror == json.loads(json.dumps(plain_after))
    return _node(name, plain_before, node, plain_after, [list(each.path) for each in changed])


def _refused_node(name: str, before: Any, node: Any, error: str) -> dict[str, Any]:
    return {"name": name, "before": before, "node": node, "error": error}


def main() -> None:
    """Write them all."""
    for name, text in files().items():
        (VECTORS / name).parent.mkdir(exist_ok=True)
        (VECTORS / name).write_text(text, "utf-8")
    PROTO.write_text(frames_file(), "utf-8")


if __name__ == "__main__":
    main()
