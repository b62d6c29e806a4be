"""Encrypted TCP: who gets in, and what becomes of a link when somebody between its ends has a hand in it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from holdfast.transports import secure, tcp
from holdfast.transports.keys import ServerKey, read_public
from holdfast.transports.noise import CipherState, Forged
from holdfast.transports.port import (
    GOING_AWAY,
    NORMAL,
    POLICY,
    TOO_BIG,
    UNSUPPORTED,
    VANISHED,
    DialError,
    Listener,
    TransportLimits,
)
from holdfast.transports.secure import NAME, Greeting, Lock, Tunnel, answer, greeted
from tests.core.vectors import Case, cases
from tests.transports.harness import (
    BINARY,
    LIMITS,
    LOCK,
    PINNED,
    SERVER_KEY,
    TEXT,
    Harness,
    NoiseAdapter,
    SocketAdapter,
    client_context,
)
from tests.transports.raw import RawPeer, close_body, raw_server, tcp_frame
from tests.transports.recorder import Recorder

IMPATIENT = replace(LIMITS, handshake_s=0.2, close_s=0.2)
MAY_BE_FORGED = "anybody on the way can say that: no reason for a session that comes back to end"
PREFACE = BINARY.name.encode()


@asynccontextmanager
async def harness_of(lock: Lock = LOCK, *, tls: bool = False) -> AsyncIterator[Harness]:
    harness = Harness(NoiseAdapter(lock=lock, tls=tls))
    yield harness
    await harness.finish()


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with harness_of() as harness:
        yield harness


async def raw_link(harness: Harness, listener: Listener) -> tuple[RawPeer, Tunnel, Recorder]:
    """A link whose dialing end can write anything, sealed or not."""
    peer = await harness.raw(listener)
    greeting = Greeting(PINNED, PREFACE)
    peer.write(tcp_frame(greeting.frame))
    is_close, frame = await peer.read_tcp_frame()
    assert not is_close
    choice, tunnel = greeting.answered(frame)
    assert choice == PREFACE
    return peer, tunnel, await harness.accept()


async def dial(
    listener: Listener, *, key: bytes | None = PINNED, limits: TransportLimits = LIMITS, tls: bool = False
) -> Recorder:
    recorder = Recorder()
    host, port = listener.addresses[0]
    url = f"{'tcps' if tls else 'tcp'}://{host}:{port}"
    context = client_context() if tls else None
    await tcp.dial(recorder, url, dialects=[BINARY], limits=limits, ssl=context, server_key=key)
    return recorder


# The golden vectors


LINKS = [case for case in cases("noise.json") if "frames" in case]


def key_of(case: Case, name: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(case[name]))


def on_the_wire(body: bytes) -> str:
    return tcp_frame(body).hex()


@pytest.mark.parametrize("case", LINKS, ids=lambda case: str(case["name"]))
def test_a_link_is_written_and_read_as_the_vector_says(case: Case) -> None:
    key = ServerKey(key_of(case, "server_private"))
    greeting = Greeting(
        read_public(case["server_key"]), case["preface"].encode(), lambda: key_of(case, "client_ephemeral_private")
    )
    preface, responder = greeted([key], greeting.frame, lambda: key_of(case, "server_ephemeral_private"))
    frame, server = answer(responder, case["choice"].encode())
    choice, client = greeting.answered(frame)

    assert (preface.decode(), choice.decode()) == (case["preface"], case["choice"])
    assert on_the_wire(greeting.frame) == case["client_first"]
    assert on_the_wire(frame) == case["server_first"]
    assert responder.handshake_hash.hex() == case["handshake_hash"]
    for each in case["frames"]:
        sends, receives = (client, server) if each["direction"] == "client" else (server, client)
        body, is_payload = bytes.fromhex(each["body"]), each["kind"] == "payload"
        sealed = sends.seal(body) if is_payload else sends.seal_close(body)
        assert on_the_wire(sealed) == each["wire"]
        assert receives.open(sealed) == (is_payload, body)


def test_the_key_changes_where_the_vector_says() -> None:
    (case,) = [case for case in cases("noise.json") if "empty_payloads" in case]
    expected = {each["number"]: each["wire"] for each in case["empty_payloads"]}
    key = bytes.fromhex(case["key"])
    sends, receives = (Tunnel(CipherState(key), CipherState(key)) for _ in range(2))

    for number in range(max(expected) + 1):
        sealed = sends.seal(b"")
        assert receives.open(sealed) == (True, b"")
        assert expected.get(number, on_the_wire(sealed)) == on_the_wire(sealed)


# Who gets in


async def test_nothing_of_a_payload_can_be_seen_on_the_wire(harness: Harness) -> None:
    peer, tunnel, accepted = await raw_link(harness, await harness.listen())

    accepted.link.send(b"a secret" * 10)

    is_close, sealed = await peer.read_tcp_frame()
    assert not is_close
    assert b"secret" not in sealed
    assert len(sealed) == 80 + secure.OVERHEAD_BYTES
    assert tunnel.open(sealed) == (True, b"a secret" * 10)


async def test_a_link_says_that_it_is_encrypted(harness: Harness) -> None:
    dialed, accepted = await harness.pair()

    assert dialed.link.is_encrypted
    assert accepted.link.is_encrypted


@pytest.mark.parametrize("tls", [False, True])
async def test_a_link_without_a_key_is_encrypted_only_if_it_has_tls(tls: bool) -> None:
    harness = Harness(SocketAdapter(tcp, "tcps" if tls else "tcp", tls=tls))
    dialed, accepted = await harness.pair()

    assert dialed.link.is_encrypted is accepted.link.is_encrypted is tls
    await harness.finish()


async def test_a_server_with_another_key_is_named_as_such(harness: Harness) -> None:
    listener = await harness.listen()

    with pytest.raises(DialError, match="does not have the key that is pinned") as failure:
        await dial(listener, key=read_public(ServerKey.new().public))

    assert failure.value.retry, MAY_BE_FORGED
    assert harness.accepted == []


async def test_an_impostor_that_answers_all_the_same_is_recognised() -> None:
    async with raw_server(tcp_frame(bytes(range(48))), hangs_up=False) as port:
        recorder = Recorder()

        with pytest.raises(DialError, match="does not have the key that is pinned") as failure:
            await tcp.dial(recorder, f"tcp://127.0.0.1:{port}", dialects=[BINARY], limits=LIMITS, server_key=PINNED)

    assert failure.value.retry, MAY_BE_FORGED
    assert recorder.transport is None


async def test_a_client_with_a_key_never_goes_on_in_the_clear() -> None:
    # What a plain server, or whoever would like to be one, answers to a preface.
    async with raw_server(tcp_frame(PREFACE), hangs_up=False) as port:
        recorder = Recorder()

        with pytest.raises(DialError) as failure:
            await tcp.dial(recorder, f"tcp://127.0.0.1:{port}", dialects=[BINARY], limits=LIMITS, server_key=PINNED)

    assert failure.value.retry, MAY_BE_FORGED
    assert recorder.transport is None


async def test_a_server_without_a_key_is_not_enough_for_a_client_with_one(harness: Harness) -> None:
    plain = Harness(SocketAdapter(tcp, "tcp"))
    listener = await plain.listen()

    with pytest.raises(DialError, match="does not encrypt") as failure:
        await dial(listener)

    assert failure.value.retry, MAY_BE_FORGED
    assert plain.accepted == []
    await plain.finish()


async def test_a_server_with_a_key_refuses_a_client_without(harness: Harness) -> None:
    listener = await harness.listen()

    with pytest.raises(DialError, match="links are encrypted here") as failure:
        await dial(listener, key=None)

    assert not failure.value.retry
    assert harness.accepted == []


async def test_a_server_may_let_both_kinds_in() -> None:
    async with harness_of(replace(LOCK, is_plain_welcome=True)) as harness:
        listener = await harness.listen()

        plain, encrypted = await dial(listener, key=None), await dial(listener)
        harness.dialed += [plain, encrypted]

        assert [recorder.link.is_encrypted for recorder in (plain, encrypted)] == [False, True]


async def test_tls_is_encryption_enough_for_a_server_with_a_key() -> None:
    async with harness_of(tls=True) as harness:
        listener = await harness.listen()

        with_key, without = await dial(listener, tls=True), await dial(listener, key=None, tls=True)
        harness.dialed += [with_key, without]
        with_key.link.send(b"twice wrapped")

        assert await (await harness.accept()).payload() == [b"twice wrapped"]
        assert with_key.link.is_encrypted
        assert without.link.is_encrypted


async def test_a_server_with_two_keys_takes_clients_of_both() -> None:
    new = ServerKey.new()
    async with harness_of(Lock((new, SERVER_KEY), is_plain_welcome=False)) as harness:
        listener = await harness.listen()

        harness.dialed += [await dial(listener, key=read_public(key.public)) for key in (new, SERVER_KEY)]

        with pytest.raises(DialError, match="does not have the key"):
            await dial(listener, key=read_public(ServerKey.new().public))


# Strangers


def forged(greeting: bytes) -> bytes:
    return greeting[:-1] + bytes([greeting[-1] ^ 1])


def count_keys(keys: list[ServerKey], greeting: bytes) -> int:
    """How many ephemeral keys a greeting costs the server."""
    made: list[X25519PrivateKey] = []

    def generate() -> X25519PrivateKey:
        made.append(X25519PrivateKey.generate())
        return made[-1]

    with suppress(Forged):
        answer(greeted(keys, greeting, generate)[1], b"")
    return len(made)


def test_a_greeting_costs_one_key_and_a_forged_one_none() -> None:
    greeting = Greeting(PINNED, PREFACE).frame

    assert count_keys([SERVER_KEY], greeting) == 1
    assert count_keys([ServerKey.new(), SERVER_KEY], greeting) == 1
    assert count_keys([SERVER_KEY], forged(greeting)) == 0


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param(lambda: NAME, POLICY, id="the name alone"),
        pytest.param(lambda: NAME + bytes(48), POLICY, id="zeros"),
        pytest.param(lambda: NAME + bytes(range(241)), POLICY, id="as much as fits"),
        pytest.param(lambda: NAME + bytes(242), TOO_BIG, id="more than fits"),
        pytest.param(lambda: forged(Greeting(PINNED, PREFACE).frame), POLICY, id="a changed byte"),
        pytest.param(lambda: Greeting(PINNED, PREFACE).frame[:-1], POLICY, id="a byte too few"),
        pytest.param(lambda: Greeting(PINNED, PREFACE).frame + b"x", POLICY, id="a byte too many"),
        pytest.param(lambda: b"holdfast.noise2" + bytes(48), UNSUPPORTED, id="another version"),
        pytest.param(lambda: PREFACE, UNSUPPORTED, id="a plain preface"),
    ],
)
async def test_whatever_is_no_greeting_is_answered_with_a_close_and_reaches_nobody(
    harness: Harness, said: Callable[[], bytes], code: int
) -> None:
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(tcp_frame(said()))

    is_close, body = await peer.read_tcp_frame()
    assert (is_close, body[:2]) == (True, code.to_bytes(2, "big"))
    assert await peer.read_rest() == b""
    assert harness.accepted == []


async def test_one_greeting_is_all_that_a_link_gets(harness: Harness) -> None:
    peer, _, accepted = await raw_link(harness, await harness.listen())

    peer.write(tcp_frame(Greeting(PINNED, PREFACE).frame))

    assert await accepted.loss() == (VANISHED, "")
    assert await peer.read_rest() == b""


@pytest.mark.parametrize("size", [0, 3, 10, 40])
async def test_a_greeting_that_takes_too_long_is_cut_off(harness: Harness, size: int) -> None:
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(tcp_frame(Greeting(PINNED, PREFACE).frame)[:size])

    assert await peer.read_rest() == b""
    assert harness.accepted == []


async def test_a_link_may_come_byte_by_byte(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())
    greeting = Greeting(PINNED, PREFACE)

    await peer.write_slowly(tcp_frame(greeting.frame))
    _, tunnel = greeting.answered((await peer.read_tcp_frame())[1])
    await peer.write_slowly(tcp_frame(tunnel.seal(b"bit by bit")))

    assert await (await harness.accept()).payload() == [b"bit by bit"]


async def test_the_reason_of_a_refusal_comes_through_the_tunnel(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen(dialects=[TEXT]))
    greeting = Greeting(PINNED, PREFACE)
    peer.write(tcp_frame(greeting.frame))

    choice, tunnel = greeting.answered((await peer.read_tcp_frame())[1])

    assert choice == b""
    is_close, sealed = await peer.read_tcp_frame()
    assert not is_close
    assert tunnel.open(sealed) == (False, close_body(UNSUPPORTED, b"spoken here: test.v1.text"))
    assert harness.accepted == []


async def test_whoever_is_halfway_through_the_door_when_it_closes_is_turned_away(harness: Harness) -> None:
    listener = await harness.listen()
    peer = await harness.raw(listener)
    greeting = Greeting(PINNED, PREFACE)
    peer.write(tcp_frame(greeting.frame)[:5])
    await harness.fence()

    await listener.close()
    peer.write(tcp_frame(greeting.frame)[5:])

    _, tunnel = greeting.answered((await peer.read_tcp_frame())[1])
    _, sealed = await peer.read_tcp_frame()
    assert tunnel.open(sealed) == (False, close_body(GOING_AWAY, b"the server is stopping"))
    assert harness.accepted == []


# A hand between the ends


async def test_a_close_in_the_clear_is_not_believed(harness: Harness) -> None:
    peer, tunnel, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))
    peer.write(tcp_frame(tunnel.seal(b"genuine")))
    await accepted.payload()

    peer.write(tcp_frame(close_body(4999, b"go away"), is_close=True))

    assert (await accepted.loss())[0] == TOO_BIG
    assert accepted.payloads == [b"genuine"]


async def test_a_sealed_close_is(harness: Harness) -> None:
    peer, tunnel, accepted = await raw_link(harness, await harness.listen())

    peer.write(tcp_frame(tunnel.seal_close(close_body(NORMAL, b"bye"))))

    assert await accepted.loss() == (NORMAL, "bye")
    assert tunnel.open((await peer.read_tcp_frame())[1]) == (False, close_body(NORMAL, b"bye"))


async def test_an_end_without_a_sealed_close_is_no_orderly_end(harness: Harness) -> None:
    peer, tunnel, accepted = await raw_link(harness, await harness.listen())
    peer.write(tcp_frame(tunnel.seal(b"and then")))
    await accepted.payload()

    peer.half_close()

    assert await accepted.loss() == (VANISHED, "")


async def test_a_frame_in_the_clear_ends_the_link(harness: Harness) -> None:
    peer, _, accepted = await raw_link(harness, await harness.listen())

    peer.write(tcp_frame(b"\x00 a payload of somebody's own"))

    assert await accepted.loss() == (VANISHED, "")
    assert accepted.payloads == []


@pytest.mark.parametrize("message", [b"", b"\x02", b"\xff payload"])
def test_a_sealed_frame_of_no_known_kind_is_refused(message: bytes) -> None:
    key = bytes(range(32))
    tunnel = Tunnel(CipherState(key), CipherState(key))

    with pytest.raises(Forged):
        tunnel.open(CipherState(key).encrypt(message))


async def test_a_payload_above_the_limit_is_refused_even_where_a_close_would_fit(harness: Harness) -> None:
    small = replace(LIMITS, payload_bytes_max=10)
    peer, tunnel, accepted = await raw_link(harness, await harness.listen(limits=small))

    peer.write(tcp_frame(tunnel.seal(b"x" * 10)) + tcp_frame(tunnel.seal(b"x" * 11)))

    assert await accepted.payload() == [b"x" * 10]
    assert tunnel.open((await peer.read_tcp_frame())[1])[1][:2] == TOO_BIG.to_bytes(2, "big")
    assert accepted.payloads == [b"x" * 10]


async def test_a_long_reason_fits_where_payloads_are_small(harness: Harness) -> None:
    small = replace(LIMITS, payload_bytes_max=10)
    dialed, accepted = await harness.pair(limits=small)

    accepted.link.close(NORMAL, "x" * 123)

    assert await dialed.loss() == (NORMAL, "x" * 123)


# Keys that change


@pytest.mark.parametrize(("frames", "octets"), [(7, 2**30), (2**16, 1000)])
async def test_a_link_goes_on_when_its_keys_change(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, frames: int, octets: int
) -> None:
    monkeypatch.setattr(secure, "REKEY_FRAMES", frames)
    monkeypatch.setattr(secure, "REKEY_BYTES", octets)
    dialed, accepted = await harness.pair()
    sent = [bytes([number]) * number for number in range(100)]

    for payload in sent:
        dialed.link.send(payload)
        accepted.link.send(payload)

    assert await accepted.payload(100) == sent
    assert await dialed.payload(100) == sent


def test_the_key_changes_after_so_many_frames_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    key = bytes(range(32))
    sealed = {}
    for limits in ((2**16, 2**30), (3, 2**30), (2**16, 3 * (100 + secure.OVERHEAD_BYTES))):
        monkeypatch.setattr(secure, "REKEY_FRAMES", limits[0])
        monkeypatch.setattr(secure, "REKEY_BYTES", limits[1])
        tunnel = Tunnel(CipherState(key), CipherState(key))
        sealed[limits] = [tunnel.seal(bytes(100)) for _ in range(7)]

    never, by_frames, by_bytes = sealed.values()
    assert by_frames == by_bytes
    assert [number for number in range(7) if never[number] != by_frames[number]] == [3, 4, 5, 6]
