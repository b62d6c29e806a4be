"""The search for leaks finds them: planted in every spelling, it must; in innocent text, it must not."""

import base64
from urllib.parse import quote

import pytest

from holdfast import Limits
from holdfast.core.codec import MSGPACK
from holdfast.observability.packet_text import PacketReader
from holdfast.schemas.frames import Auth, Close, Hello
from tests.e2e.leaks import leaks_in

SECRET = "Qm9-_rK8sPz0vTj4xYw2aLc6dNf1hGb5eUo7iRt3MqA"
PASSWORD = "pa55 wörd/with=odd?letters"
RAW = base64.urlsafe_b64decode(SECRET + "=")


@pytest.mark.parametrize(
    ("told", "how"),
    [
        (f"token={SECRET}", "raw"),
        (f"token={SECRET[:16]}…", "raw"),
        (f"…{SECRET[-12:]}", "raw"),
        (SECRET.encode().hex(), "in hex"),
        (SECRET.encode().hex().upper(), "in hex"),
        (SECRET.encode().hex(" "), "in hex"),
        (base64.b64encode(SECRET.encode()).decode(), "in base64"),
        (base64.b64encode(f"user:{SECRET}".encode()).decode(), "in base64"),
        (base64.b64encode(f"users:{SECRET}!".encode()).decode(), "in base64"),
        (base64.urlsafe_b64encode(f"a:{SECRET} and more".encode()).decode(), "in base64"),
        (RAW.hex(), "in hex of its bytes"),
        (base64.b64encode(RAW).decode(), "in base64 of its bytes"),
    ],
)
def test_a_planted_token_is_found(told: str, how: str) -> None:
    found = leaks_in({"the log": f"12:00 INFO {told} end".encode()}, {"token": SECRET})

    assert f"token in the log, {how}" in found


def test_a_planted_token_is_found_as_bytes() -> None:
    assert leaks_in({"the store": b"\x00" + RAW + b"\x00"}, {"token": SECRET}) == ["token in the store, as bytes"]


@pytest.mark.parametrize("told", [PASSWORD, quote(PASSWORD), quote(PASSWORD, safe=""), f"?password={quote(PASSWORD)}"])
def test_a_planted_password_is_found_in_a_url(told: str) -> None:
    assert leaks_in({"a request": f"GET /{told} HTTP/1.1".encode()}, {"password": PASSWORD}) != []


def test_a_planted_leak_is_found_across_the_rows_of_a_dump() -> None:
    # A close may repeat anything, and is shown.
    payload = MSGPACK.payload(Close(4400, "protocol", f"what is {SECRET}?"))
    text = PacketReader(MSGPACK, Limits()).read(payload, is_from_client=False, is_before_sign_in=False)

    found = leaks_in({"packets": "\n    ".join(text.dump).encode()}, {"token": SECRET})

    assert "token in packets, dumped raw" in found


def test_what_is_masked_is_no_leak() -> None:
    payload = MSGPACK.payload(Hello(Auth("guest", SECRET)))
    text = PacketReader(MSGPACK, Limits()).read(payload, is_from_client=True, is_before_sign_in=True)

    told = "\n    ".join([*text.frames, *text.dump]).encode()

    assert b"hello" in told
    assert leaks_in({"packets": told}, {"token": SECRET}) == []
