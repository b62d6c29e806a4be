"""The golden vectors of spec/vectors, for the tests that replay them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.schemas.frames import Frame
from tests.cases import Test, every_case

VECTORS = Path(__file__).parents[2] / "spec" / "vectors"

Case = dict[str, Any]


def cases(file_name: str) -> list[Case]:
    """All cases of a file."""
    found: list[Case] = json.loads((VECTORS / file_name).read_text("utf-8"))
    return found


def each(file_name: str) -> Callable[[Test], Test]:
    """A claim about each case of a file."""
    found = cases(file_name)
    names = [
        f"{case.get('dialect', '').rpartition('.')[2]} {case['direction']} {case['name']}".strip() for case in found
    ]
    return every_case("case", found, ids=names)


def readers(codec: Codec, direction: str) -> list[Any]:
    """Who reads what is sent in this direction."""
    found: list[Any] = []
    if direction != "server":
        found.append(codec.from_client)
    if direction != "client":
        found.append(codec.from_server)
    return found


def plain(codec: Codec, frame: Frame) -> Any:
    """A frame as the plain value that everybody can compare."""
    value = (msgspec.json if codec is JSON else msgspec.msgpack).decode(codec.encode(frame))
    return json.loads(json.dumps(value))


def whole_payloads() -> list[tuple[str, Codec, str, bytes]]:
    """(name, codec, direction, payload) of every frame and every payload in both codecs."""
    found = []
    for case in cases("frames.json") + cases("payloads.json"):
        for codec, encoded in ((JSON, case["json"].encode()), (MSGPACK, bytes.fromhex(case["msgpack"]))):
            payload = codec.encode([msgspec.Raw(encoded)]) if "frame" in case else encoded
            found.append((case["name"], codec, case["direction"], payload))
    return found


def codec_of(case: Case) -> Codec:
    return CODECS[case["dialect"]]
