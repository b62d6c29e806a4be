"""Sealed datagrams: the golden vectors, and what is dropped."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from holdfast.transports.udp.seal import (
    FROM_CLIENT,
    FROM_SERVER,
    SEAL_BYTES,
    DatagramKind,
    Opened,
    Refusal,
    Seal,
    id_of,
)
from tests.core.vectors import cases

KEY, ID = bytes(range(32)), bytes(range(8))
CASES = cases("datagrams.json")


def opener(case: dict[str, Any]) -> Seal:
    accepted = FROM_CLIENT if case["direction"] == "client" else FROM_SERVER
    return Seal(bytes.fromhex(case["key"]), bytes.fromhex(case["id"]), accepted)


@pytest.mark.parametrize("case", [each for each in CASES if "error" not in each], ids=lambda case: case["name"])
def test_a_datagram_is_sealed_and_opened_as_the_vector_and_the_page_say(case: dict[str, Any]) -> None:
    data, kind, number = bytes.fromhex(case["hex"]), DatagramKind(case["kind"]), case["number"]
    contents = bytes.fromhex(case["contents"])
    sender = opener(case)
    sender.sent = number - 1

    assert sender.seal(kind, contents) == data
    assert opener(case).open(data) == Opened(kind, number, contents)
    assert id_of(data).hex() == case["id"]
    # By the words of docs/protocol.md alone.
    head = bytes([kind]) + bytes.fromhex(case["id"]) + number.to_bytes(8, "big")
    nonce = bytes(3) + bytes([kind]) + number.to_bytes(8, "big")
    assert data == head + ChaCha20Poly1305(bytes.fromhex(case["key"])).encrypt(nonce, contents, head)


@pytest.mark.parametrize("case", [each for each in CASES if "error" in each], ids=lambda case: case["name"])
def test_what_the_vector_refuses_is_dropped(case: dict[str, Any]) -> None:
    assert opener(case).open(bytes.fromhex(case["hex"])) is Refusal.FORGED


def test_of_each_kind_only_what_is_newer_is_opened() -> None:
    client, server = Seal(KEY, ID, FROM_SERVER), Seal(KEY, ID, FROM_CLIENT)
    kinds = DatagramKind.CLIENT_LATEST, DatagramKind.PING, DatagramKind.CLIENT_LATEST
    first, ping, second = (client.seal(kind, bytes(8)) for kind in kinds)

    assert isinstance(server.open(second), Opened)
    assert server.open(first) is Refusal.LATE
    assert server.open(second) is Refusal.LATE
    assert isinstance(server.open(ping), Opened)
    assert server.open(ping) is Refusal.LATE


def test_a_forgery_with_a_high_number_does_not_keep_out_what_is_real() -> None:
    client, server = Seal(KEY, ID, FROM_SERVER), Seal(KEY, ID, FROM_CLIENT)
    real = client.seal(DatagramKind.CLIENT_LATEST, b"real")
    forged = real[:9] + b"\xff" * 8 + real[17:]

    assert server.open(forged) is Refusal.FORGED
    assert server.open(real) == Opened(DatagramKind.CLIENT_LATEST, 1, b"real")


def test_what_an_end_has_sent_is_worth_nothing_when_it_comes_back() -> None:
    client = Seal(KEY, ID, FROM_SERVER)

    assert client.open(client.seal(DatagramKind.CLIENT_LATEST, b"x")) is Refusal.FORGED


@pytest.mark.parametrize("kind", [DatagramKind.PING, DatagramKind.PONG, DatagramKind.CHALLENGE])
@pytest.mark.parametrize("size", [0, 7, 9])
def test_a_cookie_or_a_number_has_eight_bytes(kind: DatagramKind, size: int) -> None:
    sealed = Seal(KEY, ID, frozenset()).seal(kind, bytes(size))

    assert Seal(KEY, ID, frozenset({kind})).open(sealed) is Refusal.FORGED


def test_no_number_is_used_twice_so_no_nonce_is() -> None:
    seal = Seal(KEY, ID, FROM_SERVER)

    sealed = [seal.seal(kind, b"x" * 8) for kind in (DatagramKind.CLIENT_LATEST, DatagramKind.PING) * 50]

    assert len({each[9:17] for each in sealed}) == 100
    assert {len(each) for each in sealed} == {SEAL_BYTES + 8}
