"""Secrets: the names of fields that hold one, and how to mask one in a text."""

import re
from collections.abc import Iterable

HIDDEN = "***"

_NAMES = re.compile(
    r"passw|passphrase|passcode|^pass$|^pwd$|^pin$|credential|secret|token|ticket|api_?key|private_?key|authorization"
    r"|cookie",
    re.IGNORECASE,
)
# In a credential, these separate the name of an account from its password, and the parts of a signed token.
_PARTS = re.compile("[:.]")
# Shorter strings are in too many words: a text full of "***" explains nothing.
_STRUCK_CHARS_MIN = 4


def is_secret(name: str) -> bool:
    """Whether a field with this name holds a secret: "password", "accessToken", "api_key" …"""
    return _NAMES.search(name) is not None


def struck_out(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets and their parts, also as Python would quote them."""
    found: set[str] = set()
    for secret in secrets:
        _, _, password = secret.partition(":")
        for each in (secret, password, *_PARTS.split(secret)[1:]):
            if len(each) >= _STRUCK_CHARS_MIN:
                found |= {each, repr(each)[1:-1]}
    # The longest first: masking a part of a longer one would leave the rest readable.
    for spelling in sorted(found, key=len, reverse=True):
        text = text.replace(spelling, HIDDEN)
    return text
