"""An encrypted TCP link with keys that are known: every byte that both ends send. The keys are for nothing else."""

from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from holdfast.transports.closing import pack_close
from holdfast.transports.keys import ServerKey
from holdfast.transports.noise import CipherState
from holdfast.transports.secure import NAME, REKEY_FRAMES, Greeting, Tunnel, answer, greeted

_PREFACE, _CHOICE = b"holdfast.v1.json,holdfast.v1.msgpack", b"holdfast.v1.json"


def noise_cases() -> list[dict[str, Any]]:
    """The cases of noise.json."""
    return [_link(), _refused(), _rekey()]


def _key(name: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(sha256(f"holdfast vectors: {name}".encode()).digest())


def _wire(body: bytes) -> str:
    return (len(body).to_bytes(4, "big") + body).hex()


def _handshake(choice: bytes) -> tuple[dict[str, Any], Tunnel, Tunnel]:
    server, client_ephemeral, server_ephemeral = map(_key, ("server", "client ephemeral", "server ephemeral"))
    greeting = Greeting(server.public_key().public_bytes_raw(), _PREFACE, lambda: client_ephemeral)
    _, responder = greeted([ServerKey(server)], greeting.frame, lambda: server_ephemeral)
    frame, ours = answer(responder, choice)
    _, theirs = greeting.answered(frame)
    case = {
        "server_private": server.private_bytes_raw().hex(),
        "server_key": ServerKey(server).public,
        "client_ephemeral_private": client_ephemeral.private_bytes_raw().hex(),
        "server_ephemeral_private": server_ephemeral.private_bytes_raw().hex(),
        "prologue": NAME.decode(),
        "preface": _PREFACE.decode(),
        "choice": choice.decode(),
        "client_first": _wire(greeting.frame),
        "server_first": _wire(frame),
        "handshake_hash": responder.handshake_hash.hex(),
    }
    return case, theirs, ours


def _link() -> dict[str, Any]:
    case, client, server = _handshake(_CHOICE)
    said = [
        (client, "client", "payload", b'[["hello",{}]]'),
        (server, "server", "payload", b"[]"),
        (client, "client", "payload", b""),
        (client, "client", "close", pack_close(1000, "bye")),
        (server, "server", "close", pack_close(1000, "bye")),
    ]
    return {"name": "a link", **case, "frames": [_frame(*each) for each in said]}


def _refused() -> dict[str, Any]:
    case, _, server = _handshake(b"")
    return {
        "name": "a choice that is none is followed by the reason",
        **case,
        "frames": [_frame(server, "server", "close", pack_close(1003, "spoken here: nothing"))],
    }


def _frame(tunnel: Tunnel, direction: str, kind: str, body: bytes) -> dict[str, Any]:
    sealed = tunnel.seal(body) if kind == "payload" else tunnel.seal_close(body)
    return {"direction": direction, "kind": kind, "body": body.hex(), "wire": _wire(sealed)}


def _rekey() -> dict[str, Any]:
    key = sha256(b"holdfast vectors: a key").digest()
    tunnel = Tunnel(CipherState(key), CipherState(key))
    frames = {number: tunnel.seal(b"") for number in range(REKEY_FRAMES + 2)}
    shown = (0, 1, REKEY_FRAMES - 1, REKEY_FRAMES, REKEY_FRAMES + 1)
    return {
        "name": "the key changes",
        "key": key.hex(),
        "empty_payloads": [{"number": number, "wire": _wire(frames[number])} for number in shown],
    }
