"""The stream of a store, and whether the NATS servers keep what they acknowledge.

What is certainly wrong is a `ValueError` that names the line to change. What cannot be seen from a client, or is a
decision of the operator, is a warning.
"""

import asyncio
import urllib.request
from http.client import HTTPException
from typing import Any

import msgspec

from holdfast.core.limits import KIB, MIB, NatsLimits
from holdfast.logs import get_logger
from holdfast.stores.nats.address import NatsAddress
from holdfast.stores.nats.link import ApiAnswer, ApiError, NatsLink, NoResponder
from holdfast.stores.nats.messages import EXPECTED, TOO_MANY, BatchIds, NatsMessage, PublishAck, in_one_batch
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.port import Claim, Unavailable

log = get_logger("holdfast.stores")

# Earlier ones have no atomic batches, or lost acknowledged messages at kill -9, or let two equal conditions win.
_VERSION_MIN = (2, 12, 3)
_NO_STREAM = 10059
_NAME_IN_USE = 10058
_TOO_FEW_PEERS = frozenset({10005, 10074})
_JETSTREAM_OFF = frozenset({10039, 10076})
_WIDE = 3
# A message has headers too, and a value that is larger is split.
_PAYLOAD_MIN = 64 * KIB
_BATCH_DEFAULT = 1000
# No stream gets as far.
_NEVER = 2**62

_ENABLE = 'add `jetstream { store_dir: "/var/lib/nats", sync_interval: always }` to its configuration'
_SYNC = "add `sync_interval: always` to the `jetstream` of its configuration"
_BATCH = "add `limits { batch { max_msgs: 20000 } }` to the `jetstream` of its configuration"


class _Config(msgspec.Struct):
    """The settings of a stream that a store depends on."""

    subjects: list[str] = []
    num_replicas: int = 1
    retention: str = "limits"
    max_msgs: int = -1
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    no_ack: bool = False
    subject_transform: object = None
    discard: str = "old"
    storage: str = "file"
    allow_atomic: bool = False
    allow_msg_ttl: bool = False
    max_age: int = 0
    persist_mode: str = ""
    sealed: bool = False


class _StreamAnswer(msgspec.Struct):
    config: _Config = msgspec.field(default_factory=_Config)
    error: ApiError | None = None


class _JszConfig(msgspec.Struct):
    sync_always: bool = False


class _Jsz(msgspec.Struct):
    config: _JszConfig = msgspec.field(default_factory=_JszConfig)


async def prepare(link: NatsLink, address: NatsAddress, limits: NatsLimits, *, claim: Claim, make: bool) -> None:
    """Check the NATS servers and the stream, which is made if it may be. A server also warns of what is doubtful."""
    _check_version(link)
    if claim == "member":
        # Before anything of the game is written there.
        _check_readers(link, address)
    if link.payload_bytes_max < _PAYLOAD_MIN:
        raise ValueError(
            f"{address}: this NATS server takes no message above {link.payload_bytes_max} bytes: add `max_payload: 1MB`"
            " to its configuration"
        )
    try:
        account = await link.ask("INFO", {}, ApiAnswer)
    except NoResponder:
        raise ValueError(f"{address}: this NATS server has no JetStream: {_ENABLE}") from None
    if account.error is not None:
        if account.error.err_code in _JETSTREAM_OFF:
            raise ValueError(f"{address}: {account.error.description}: {_ENABLE}")
        raise Unavailable(f"JetStream is not ready: {account.error.description}")
    config = await _stream(link, address, make=make)
    if claim != "shared":
        await _check_saving(address, limits, config)
        await _check_batches(link, Subjects(address.name))
        for what, fix in _readers(link, address):
            log.warning(what, fix=fix)
        _warn_of_replicas(link, address, config)
        if claim == "member" and not address.is_local and "cluster" not in link.server:
            log.warning(
                "this cluster has one NATS server: while its machine is away, durable rooms of all nodes stand still",
                fix="start three NATS servers on three machines, as in deploy/nats/nats.conf, and name all of them",
            )


def _check_version(link: NatsLink) -> None:
    words = str(link.server.get("version", ""))
    version = tuple(int(part) for part in words.partition("-")[0].split(".") if part.isdigit())
    if version < _VERSION_MIN:
        wanted = ".".join(map(str, _VERSION_MIN))
        raise ValueError(f"NATS server {words or 'of an unknown version'}: a store needs {wanted} or newer")


async def _stream(link: NatsLink, address: NatsAddress, *, make: bool) -> _Config:
    subjects = Subjects(address.name)
    found = await link.ask(f"STREAM.INFO.{subjects.stream}", {}, _StreamAnswer)
    if found.error is not None and found.error.err_code == _NO_STREAM:
        if not make:
            raise ValueError(f"there is no store {address}")
        config = _config(subjects, address.replicas or (_WIDE if "cluster" in link.server else 1))
        found = await link.ask(f"STREAM.CREATE.{subjects.stream}", config, _StreamAnswer)
        if found.error is not None and found.error.err_code == _NAME_IN_USE:
            # Another server was quicker.
            found = await link.ask(f"STREAM.INFO.{subjects.stream}", {}, _StreamAnswer)
    if found.error is not None:
        if found.error.err_code in _TOO_FEW_PEERS:
            raise ValueError(
                f"{address}: {found.error.description}: start three NATS servers with JetStream, or let each record be"
                " on one alone, with ?replicas=1"
            )
        raise Unavailable(f"NATS does not open the stream {subjects.stream}: {found.error.description}")
    _check_stream(found.config, subjects)
    return found.config


def _config(subjects: Subjects, replicas: int) -> dict[str, Any]:
    return {
        "name": subjects.stream,
        "description": "a store of Holdfast",
        "subjects": subjects.saved,
        "num_replicas": replicas,
        "storage": "file",
        "retention": "limits",
        # The last message of a subject is the value of its key.
        "max_msgs_per_subject": 1,
        # A full stream refuses: it must not forget.
        "discard": "new",
        "allow_atomic": True,
        "allow_msg_ttl": True,
        # Reads would be answered by servers that lag behind.
        "allow_direct": False,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
    }


def _check_stream(config: _Config, subjects: Subjects) -> None:
    wrong = [
        name
        for name, is_right in {
            "subjects": set(config.subjects) == set(subjects.saved),
            # Anything else forgets values: those that nobody waits for, or that somebody has read.
            "retention": config.retention == "limits",
            # NATS counts a batch that replaces values as if it added them.
            "max_msgs": config.max_msgs <= 0,
            "max_msgs_per_subject": config.max_msgs_per_subject == 1,
            "max_msg_size": config.max_msg_size <= 0,
            "no_ack": not config.no_ack,
            "subject_transform": not config.subject_transform,
            "discard": config.discard == "new",
            "storage": config.storage == "file",
            "allow_atomic": config.allow_atomic,
            "allow_msg_ttl": config.allow_msg_ttl,
            "max_age": config.max_age == 0,
            "persist_mode": config.persist_mode in {"", "default"},
            "sealed": not config.sealed,
        }.items()
        if not is_right
    ]
    if wrong:
        raise ValueError(
            f"the stream {subjects.stream} cannot keep a store, because of its {', '.join(wrong)}: give the store"
            " another name, after the servers, as in nats://127.0.0.1:4222/arena"
        )


async def _check_saving(address: NatsAddress, limits: NatsLimits, config: _Config) -> None:
    """Whether a message is on the disk when it is acknowledged."""
    if not address.monitors:
        log.warning(
            "it cannot be seen whether NATS saves what it acknowledges: by default it waits up to two minutes",
            fix=f"{_SYNC}; to have it checked here, add `http: 127.0.0.1:8222` and put ?monitor=http://127.0.0.1:8222"
            " behind the store's address",
        )
    if 0 < len(address.monitors) < config.num_replicas:
        log.warning(
            "not every NATS server that keeps this store can be asked whether it saves what it acknowledges",
            fix="name the monitoring of each of them, with commas: ?monitor=http://nats-1:8222,http://nats-2:8222,…",
        )
    for monitor in address.monitors:
        try:
            raw = await asyncio.to_thread(_fetch, f"{monitor.rstrip('/')}/jsz", limits.nats_connect_s)
            jsz = msgspec.json.decode(raw, type=_Jsz)
        except (OSError, HTTPException, msgspec.MsgspecError) as error:
            raise Unavailable(f"{monitor} does not say how NATS saves: {error}") from error
        if not jsz.config.sync_always:
            raise ValueError(f"{monitor}: this NATS server acknowledges what is not saved: {_SYNC}")


async def _check_batches(link: NatsLink, subjects: Subjects) -> None:
    """Whether a batch may have more messages than by default; the one tried has a condition that never holds."""
    trial = [NatsMessage(subjects.of_part("trial", number), b"", {}) for number in range(_BATCH_DEFAULT)]
    trial.append(NatsMessage(subjects.of_key("trial"), b"", {EXPECTED: str(_NEVER)}))
    messages = in_one_batch(trial, next(BatchIds()))
    for message in messages[:-1]:
        await link.publish(*message)
    ack = msgspec.json.decode((await link.request(*messages[-1])).data, type=PublishAck)
    if ack.error is not None and ack.error.err_code == TOO_MANY:
        log.warning(
            "a room with more values than NATS takes in one batch could not be saved", values=_BATCH_DEFAULT, fix=_BATCH
        )


def _fetch(url: str, within_s: float) -> bytes:
    with urllib.request.urlopen(url, timeout=within_s) as answer:  # noqa: S310 - the scheme was checked  # nosec B310
        content: bytes = answer.read(MIB)
    return content


def _readers(link: NatsLink, address: NatsAddress) -> list[tuple[str, str]]:
    """Who else could read and change what nodes say and save, each with the lines to change."""
    if address.is_local:
        return []
    found = []
    if not link.server.get("auth_required") and not link.server.get("tls_verify"):
        fix = 'add `authorization { user: "game", password: "…" }` to its configuration'
        found.append(("whoever reaches the NATS server can read and change this store", fix))
    if not address.is_encrypted and not link.server.get("tls_required"):
        fix = "add `tls { cert_file: …, key_file: … }` to its configuration, and write tls:// instead of nats://"
        found.append(("the link to NATS is not encrypted", fix))
    return found


def _check_readers(link: NatsLink, address: NatsAddress) -> None:
    """What nodes say to each other goes through NATS too, sign-ins of relayed clients included."""
    if address.is_insecure:
        return
    for what, fix in _readers(link, address):
        raise ValueError(
            f"{address}: {what}: {fix}, as in deploy/nats/nats.conf; or, in a network that nobody else can reach, put"
            " ?insecure=yes behind the address"
        )


def _warn_of_replicas(link: NatsLink, address: NatsAddress, config: _Config) -> None:
    is_spread = "cluster" in link.server or len(address.servers) > 1
    if is_spread and config.num_replicas < (address.replicas or _WIDE):
        log.warning(
            "each record of this store is on too few NATS servers",
            replicas=config.num_replicas,
            fix=f"nats stream edit {Subjects(address.name).stream} --replicas={address.replicas or _WIDE}",
        )
