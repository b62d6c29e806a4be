"""Noise NK against the public vectors, and against whoever changes a bit."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from holdfast.transports.noise import (
    HANDSHAKE_BYTES,
    KEY_BYTES,
    PROTOCOL_NAME,
    TAG_BYTES,
    CipherState,
    Forged,
    Initiator,
    Responder,
)

# The vector of this protocol from cacophony.txt, the test vectors that implementations of Noise share.
PROLOGUE = bytes.fromhex("4a6f686e2047616c74")
CLIENT_EPHEMERAL = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"
SERVER_STATIC = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893"
SERVER_PUBLIC = bytes.fromhex("31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62")
SERVER_EPHEMERAL = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"
HANDSHAKE_HASH = "2efa38a9c7c93ac98f3a097af25c2f58b9e7673787717bc27e98827118c2c1a5"
MESSAGES = [
    (
        "4c756477696720766f6e204d69736573",
        "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
        "8134d00711fdb390a0d178fa008f6d47d2891e5ea18ae136c3b4c23ac384efb0",
    ),
    (
        "4d757272617920526f746862617264",
        "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
        "8ea16e3701bc0d77744f117bee22451c9afa7f4cdbbcff00c04a8ee0913c88",
    ),
    ("462e20412e20486179656b", "a62de29ce27cb80245d440d986ed816c156e9d757d7008df2198b0"),
    ("4361726c204d656e676572", "174a35f11c689f4530d7208618e0564ae12f2f50ba8eb4df5382ff"),
    (
        "4a65616e2d426170746973746520536179",
        "337e475ebb8eae60f91974c4e455a5af38d1d8628d1803b160d60442874b0a1777",
    ),
    (
        "457567656e2042f6686d20766f6e2042617765726b",
        "047e80e060b7bb08b53c5a23dfe9920cae135b9d1dc6302fc475003062723700366346ac9d",
    ),
]
VECTOR = [(bytes.fromhex(payload), bytes.fromhex(ciphertext)) for payload, ciphertext in MESSAGES]


def private(octets: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(octets))


def halves(prologue: bytes = PROLOGUE) -> tuple[Initiator, Responder]:
    initiator = Initiator(SERVER_PUBLIC, prologue, lambda: private(CLIENT_EPHEMERAL))
    return initiator, Responder(private(SERVER_STATIC), PROLOGUE, lambda: private(SERVER_EPHEMERAL))


Pair = tuple[CipherState, CipherState]


def agreed() -> tuple[Pair, Pair]:
    """Sending and receiving, of the client and of the server."""
    initiator, responder = halves()
    responder.read(initiator.write())
    message, *server = responder.write()
    _, *client = initiator.read(message)
    return (client[0], client[1]), (server[0], server[1])


def test_the_public_vector_is_written_byte_by_byte() -> None:
    initiator, responder = halves()

    first = initiator.write(VECTOR[0][0])
    responder.read(first)
    second, server_sends, _ = responder.write(VECTOR[1][0])
    _, client_sends, _ = initiator.read(second)
    rest = [
        sends.encrypt(payload) for sends, (payload, _) in zip([client_sends, server_sends] * 2, VECTOR[2:], strict=True)
    ]

    assert [first, second, *rest] == [ciphertext for _, ciphertext in VECTOR]
    assert initiator.handshake_hash.hex() == responder.handshake_hash.hex() == HANDSHAKE_HASH


def test_the_public_vector_is_read() -> None:
    initiator, responder = halves()
    initiator.write(VECTOR[0][0])

    first = responder.read(VECTOR[0][1])
    _, _, server_receives = responder.write(VECTOR[1][0])
    second, _, client_receives = initiator.read(VECTOR[1][1])
    rest = [
        receives.decrypt(ciphertext)
        for receives, (_, ciphertext) in zip([server_receives, client_receives] * 2, VECTOR[2:], strict=True)
    ]

    assert [first, second, *rest] == [payload for payload, _ in VECTOR]


def test_the_first_hash_is_the_name_because_it_is_as_long_as_one() -> None:
    assert len(PROTOCOL_NAME) == KEY_BYTES


def test_a_message_has_a_key_and_a_tag_beside_its_payload() -> None:
    initiator, responder = halves()

    first = initiator.write(b"12345")
    responder.read(first)

    assert len(first) == HANDSHAKE_BYTES + 5
    assert len(responder.write(b"")[0]) == HANDSHAKE_BYTES


@pytest.mark.parametrize("place", range(len(VECTOR[0][1])))
def test_a_first_message_with_a_changed_byte_is_refused(place: int) -> None:
    _, responder = halves()
    message = bytearray(VECTOR[0][1])
    message[place] ^= 0x80 if place == KEY_BYTES - 1 else 0x01

    # X25519 does not look at the top bit of a public key, but the hash of the handshake does.
    with pytest.raises(Forged):
        responder.read(bytes(message))


@pytest.mark.parametrize("place", range(len(VECTOR[1][1])))
def test_an_answer_with_a_changed_byte_is_refused(place: int) -> None:
    initiator, _ = halves()
    initiator.write(VECTOR[0][0])
    message = bytearray(VECTOR[1][1])
    message[place] ^= 0x80 if place == KEY_BYTES - 1 else 0x01

    with pytest.raises(Forged):
        initiator.read(bytes(message))


@pytest.mark.parametrize("size", [0, 1, KEY_BYTES, HANDSHAKE_BYTES - 1])
def test_a_message_that_is_too_short_is_refused(size: int) -> None:
    initiator, responder = halves()
    initiator.write()

    with pytest.raises(Forged):
        responder.read(bytes(size))
    with pytest.raises(Forged):
        initiator.read(bytes(size))


# The points of small order: with them every private key agrees on zeros, and everybody would know the key.
SMALL_ORDER = [
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_public_key_that_keeps_no_secret_is_refused(point: bytes) -> None:
    initiator, responder = halves()
    initiator.write()

    with pytest.raises(Forged):
        responder.read(point + bytes(TAG_BYTES))
    with pytest.raises(Forged):
        initiator.read(point + bytes(TAG_BYTES))


def test_a_message_for_another_key_is_refused_and_costs_no_key_of_ours() -> None:
    made: list[X25519PrivateKey] = []

    def generate() -> X25519PrivateKey:
        made.append(X25519PrivateKey.generate())
        return made[-1]

    responder = Responder(X25519PrivateKey.generate(), PROLOGUE, generate)

    with pytest.raises(Forged):
        responder.read(VECTOR[0][1])

    assert made == []


def test_another_prologue_is_another_protocol() -> None:
    initiator, responder = halves(prologue=b"holdfast.noise2")

    with pytest.raises(Forged):
        responder.read(initiator.write())


def test_each_link_has_keys_of_its_own() -> None:
    server = X25519PrivateKey.generate()
    sealed = set()
    for _ in range(2):
        initiator = Initiator(server.public_key().public_bytes_raw(), PROLOGUE)
        responder = Responder(server, PROLOGUE)
        responder.read(initiator.write())
        _, sends, receives = responder.write()
        sealed |= {sends.encrypt(b"the same"), receives.encrypt(b"the same")}

    assert len(sealed) == 4


# What follows


@given(st.lists(st.binary(max_size=64), min_size=1, max_size=8), st.data())
def test_only_the_next_message_can_be_read(messages: list[bytes], data: st.DataObject) -> None:
    (sends, _), (_, receives) = agreed()
    sealed = [sends.encrypt(message) for message in messages]
    order = data.draw(st.lists(st.integers(0, len(sealed) - 1), max_size=12))

    read: list[bytes] = []
    for number in order:
        if number == len(read):
            read.append(receives.decrypt(sealed[number]))
        else:
            with pytest.raises(Forged):
                receives.decrypt(sealed[number])

    assert read == messages[: len(read)]


@given(st.binary(max_size=64), st.data())
def test_a_changed_message_cannot_be_read_and_changes_nothing(message: bytes, data: st.DataObject) -> None:
    (sends, _), (_, receives) = agreed()
    sealed = sends.encrypt(message)
    place = data.draw(st.integers(0, len(sealed) * 8 - 1))
    changed = bytearray(sealed)
    changed[place // 8] ^= 1 << place % 8

    with pytest.raises(Forged):
        receives.decrypt(bytes(changed))

    assert receives.decrypt(sealed) == message


def test_the_two_directions_do_not_share_a_key() -> None:
    (client_sends, client_receives), _ = agreed()

    with pytest.raises(Forged):
        client_receives.decrypt(client_sends.encrypt(b"reflected"))


def test_rekeying_changes_the_key_and_goes_on_counting() -> None:
    (sends, _), (_, receives) = agreed()
    receives.decrypt(sends.encrypt(b"before"))

    sends.rekey()
    sealed = sends.encrypt(b"after")
    with pytest.raises(Forged):
        receives.decrypt(sealed)
    receives.rekey()

    assert receives.decrypt(sealed) == b"after"
    assert (sends.nonce, receives.nonce) == (2, 2)


def test_the_last_number_is_never_used() -> None:
    (sends, _), _ = agreed()
    sends.nonce = 2**64 - 2
    sends.encrypt(b"the last one")

    with pytest.raises(Forged):
        sends.encrypt(b"one too many")


def test_the_text_of_a_cipher_shows_no_key() -> None:
    assert repr(CipherState(bytes(range(32)))) == "<CipherState at 0>"
