"""What one end of a compressed link hears from the other: payloads, or the code with which it closes the link.

The deflated bytes are one way to write those payloads (zlib 1.2.13, level 1, a window of 4 KiB): another deflater may
write others, and every inflater reads these.
"""

from typing import Any

_HELLO = '[["hello",{}]]'
_MOVED = '[["data",1,{seq},0,"moved",{{"player":"{player}","x":{x},"y":2.5}}]]'
_RAW = "00" + _HELLO.encode().hex()


def _case(name: str, *heard: tuple[str, str | int], payload_bytes_max: int = 65536) -> dict[str, Any]:
    steps = [
        {"hex": octets, "closes": result} if isinstance(result, int) else {"hex": octets, "payload": result}
        for octets, result in heard
    ]
    return {"name": name, "payload_bytes_max": payload_bytes_max, "heard": steps}


COMPRESSED: list[dict[str, Any]] = [
    _case(
        "a stream goes on from payload to payload, and what is not compressed is no part of it",
        (_RAW, _HELLO),
        (
            "018a8e564a492c4954d2310442031da5dcfcb2d414259d6aa5829cc4cad422252ba5f4d2d4e212ddc414a01aa50a252b433d531da5"
            "4a252b233dd3dad8580000",
            _MOVED.format(seq=1, player="guest-ada", x=1.5),
        ),
        ("018a4668372252bb39b27e0000", _MOVED.format(seq=2, player="guest-ada", x=1.75)),
        ("005b5d", "[]"),
        ("0142d26f8c4f7f527e12cc7a14fd0000", _MOVED.format(seq=3, player="guest-bob", x=1.75)),
    ),
    _case("nothing, compressed or not", (_RAW, _HELLO), ("00", ""), ("0100", "")),
    _case("the largest payload", (_RAW, _HELLO), ("014a4ca40c0000", "a" * 64), payload_bytes_max=64),
    _case("one byte more", (_RAW, _HELLO), ("014a4ca4100000", 1009), payload_bytes_max=64),
    _case("one byte more, not compressed", (_RAW, _HELLO), ("00" + "61" * 65, 1009), payload_bytes_max=64),
    _case("the first payload is compressed", ("014a4ca40c0000", 1002)),
    _case("no mark", (_RAW, _HELLO), ("", 1002)),
    _case("a mark of no meaning", (_RAW, _HELLO), ("025b5d", 1002)),
    _case("not DEFLATE", (_RAW, _HELLO), ("01ffffffff", 1002)),
    _case("the end of a stream", (_RAW, _HELLO), ("014b4ca40c0000", 1002)),
]
