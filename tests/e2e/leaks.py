"""Where a secret was told: raw, or as programs like to write one down."""

import base64
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

# So many letters of a secret in a row are a leak too: nobody writes them down by chance.
PART_CHARS = 12

_ROW = re.compile(rb"[0-9a-f]{4}  ((?:(?:[0-9a-f]{2}|\*\*) )+) *\|")


def leaks_in(places: Mapping[str, bytes], secrets: Mapping[str, str]) -> list[str]:
    """Which secrets were told, where and how."""
    return sorted(
        f"{name} in {place}, {how}"
        for place, told in places.items()
        for text, where in ((told, ""), (dumped_in(told), "dumped "))
        for name, secret in secrets.items()
        for how in {f"{where}{how}" for how, spelling in spellings(secret) if spelling in text}
    )


def dumped_in(told: bytes) -> bytes:
    """The bytes that the hex dumps in a text show, one row after the other; those that are masked are asterisks."""
    return b"".join(bytes.fromhex(row.decode().replace("**", "2a")) for row in _ROW.findall(told))


def spellings(secret: str) -> Iterator[tuple[str, bytes]]:
    """How a secret may be written down."""
    letters = secret.encode()
    for start in range(max(1, len(letters) - PART_CHARS + 1)):
        yield "raw", letters[start : start + PART_CHARS]
    yield from _encoded("", letters)
    yield "percent-encoded", quote(secret).encode()
    yield "percent-encoded", quote(secret, safe="").encode()
    yield "percent-encoded", "".join(f"%{byte:02X}" for byte in letters).encode()
    try:
        behind = base64.b64decode(secret + "=" * (-len(secret) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return
    # A token is bytes that were made letters: those bytes are the same secret.
    yield "as bytes", behind
    yield from _encoded(" of its bytes", behind)


def _encoded(of_what: str, secret: bytes) -> Iterator[tuple[str, bytes]]:
    yield f"in hex{of_what}", secret.hex().encode()
    yield f"in hex{of_what}", secret.hex().upper().encode()
    yield f"in hex{of_what}", secret.hex(" ").encode()
    # Within a longer text it may begin at any of three places; the letters at the edges are shared with others.
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            coded = encode(b"\0" * before + secret)
            first = -(-before * 8 // 6)
            whole = (before + len(secret)) // 3 * 4
            yield f"in base64{of_what}", coded[first + (before > 0) : whole]
