"""What must not be shown: how fields that hold a secret are called, and how one is struck out of a text."""

import re
from collections.abc import Iterable

HIDDEN = "***"

_NAMES = re.compile(
    r"passw|passphrase|passcode|^pass$|^pwd$|^pin$|credential|secret|token|ticket|api_?key|private_?key|authorization"
    r"|cookie",
    re.IGNORECASE,
)
# Of a credential, these separate the name of an account from its password, and the parts of a signed token.
_PARTS = re.compile("[:.]")
# What is shorter is in every other word of a text, and nobody who reads "***" everywhere learns what went wrong.
_STRUCK_CHARS_MIN = 4


def is_secret(name: str) -> bool:
    """Whether a field with this name holds what nobody may read: "password", "accessToken", "api_key" …"""
    return _NAMES.search(name) is not None


def struck_out(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, their passwords and their parts, also as Python would quote them."""
    found: set[str] = set()
    for secret in secrets:
        _, _, password = secret.partition(":")
        for each in (secret, password, *_PARTS.split(secret)[1:]):
            if len(each) >= _STRUCK_CHARS_MIN:
                found |= {each, repr(each)[1:-1]}
    # The longest first: a part that is struck out of a whole leaves the rest of it to be read.
    for spelling in sorted(found, key=len, reverse=True):
        text = text.replace(spelling, HIDDEN)
    return text
