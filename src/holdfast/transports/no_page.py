"""What a game port answers to HTTP requests that open no WebSocket: a sentence for people, and where to go."""

from collections.abc import Callable, Sequence
from http import HTTPStatus

from holdfast.transports.port import Dialect

Directions = Callable[[str], str]
"""Tells whoever asked for this `Host` where the pages are; "" if there are none."""


def not_http(text: str) -> bytes:
    """The answer to a request that is not in order."""
    return _answer(HTTPStatus.BAD_REQUEST, text)


def no_page_here(dialects: Sequence[Dialect], directions: str) -> bytes:
    """The answer to a browser, or anybody else, who wants something other than a WebSocket."""
    text = (
        "This is the game port of a Holdfast server: games connect to it with a WebSocket and one of the sub-protocols"
        f" {names_of(dialects)}. {directions}"
    )
    return _answer(HTTPStatus.UPGRADE_REQUIRED, text.rstrip(), "Upgrade: websocket\r\n")


def names_of(dialects: Sequence[Dialect]) -> str:
    """The sub-protocols, for people."""
    return ", ".join(dialect.name for dialect in dialects)


def _answer(status: HTTPStatus, text: str, more: str = "") -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{more}Connection: close\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body
