"""What is particular to the store on NATS: its address, what is in its stream, its setup, and who has it."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from nats.aio.client import Client

from holdfast.core.limits import Limits
from holdfast.stores import ABSENT, Full, Held, NatsStore, RevisionConflict, Unavailable, Unknown, Write
from holdfast.stores.nats.address import parse_address
from holdfast.stores.nats.link import NatsLink, NoAnswer
from holdfast.stores.nats.messages import SavedMessage
from holdfast.stores.nats.reading import NatsReader
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.port import Claim
from tests.cases import every_case
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import python_process, read_until
from tests.log_lines import line_of
from tests.nats_server import NatsServer, shared_server

ROOT = Path(__file__).parents[2]
PAYLOAD = 1024 * 1024


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[:50].partition('[')[0]}-{os.getpid()}"


@pytest.fixture
def url(name: str) -> str:
    """A store of this test alone; its configuration is as it should be."""
    server = shared_server()
    return f"{server.url}/{name}?monitor={server.monitor}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[NatsStore]:
    store = NatsStore(url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """One to stop, or to configure; it is not running yet."""
    server = NatsServer(tmp_path)
    yield server
    server.kill()


async def ask(store: NatsStore, subject: str, **body: Any) -> Any:
    """A request to JetStream, as an operator makes it."""
    link = NatsLink(store.address, Limits())
    await link.open()
    answer = await link.request(f"$JS.API.{subject}", json.dumps(body).encode())
    await link.close()
    return json.loads(answer.data)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line_of(record)[0] for record in caplog.records if record.name == "holdfast.stores"]


# Addresses and subjects


@every_case(
    "url, servers, name",
    [
        ("nats://127.0.0.1:4222", ["nats://127.0.0.1:4222"], "holdfast"),
        ("nats://a:1,nats://b:2/arena", ["nats://a:1", "nats://b:2"], "arena"),
        ("nats://a:1,b:2,c", ["nats://a:1", "nats://b:2", "nats://c"], "holdfast"),
        ("tls://ada:secret@a:1/arena/?replicas=3", ["tls://a:1"], "arena"),
        ("nats://a:1,ada:secret@b:2", ["nats://a:1", "nats://b:2"], "holdfast"),
    ],
)
def test_an_address_names_servers_and_a_store(url: str, servers: list[str], name: str) -> None:
    address = parse_address(url)

    assert (list(address.servers), address.name) == (servers, name)
    assert "secret" not in str(address)


@every_case(
    "login, user, password, token",
    [
        ("ada:secret", "ada", "secret", ""),
        ("a%40da:s%2F%3F%23%2C%3A+=", "a@da", "s/?#,:+=", ""),
        ("s%2Fecret", "", "", "s/ecret"),
        ("ada:", "ada", "", ""),
    ],
)
def test_a_login_is_for_all_servers_and_may_have_any_character(
    login: str, user: str, password: str, token: str
) -> None:
    address = parse_address(f"nats://{login}@a,b/arena")

    assert (address.user, address.password, address.token) == (user, password, token)
    assert str(address) == "nats://a,b/arena"


@every_case("password", ["s/ecret", "s,ecret", "s?ecret", "s#ecret", "s@ecret", "[secret", "12/secret", "s?a=ecret"])
def test_a_password_that_has_to_be_written_otherwise_is_not_shown_in_the_error(password: str) -> None:
    with pytest.raises(ValueError, match="as %2F") as caught:
        parse_address(f"nats://ada:{password}@a:4222/arena")

    assert "ecret" not in str(caught.value)


@every_case(
    "url, says",
    [
        ("nats://", "nats://host:port"),
        ("nats://a:port", "nats://host:port"),
        ("nats://a:99999", "nats://host:port"),
        ("nats://a,b:other@b", "the same user and password"),
        (f"nats://a?ca={__file__}", "write tls://"),
        (f"tls://a?key={__file__}", "add certificate="),
        (f"nats://a?credentials={__file__}", "two logins"),
        ("nats://a,tls://b", "each server begins with nats://"),
        ("nats://a/one,nats://b/two", "the name of a store"),
        ("nats://a/one.two", "the name of a store"),
        ("nats://a?replicas=2", "1, 3 or 5"),
        ("nats://a?replicas=x", "options are written as"),
        ("nats://a?replica=3", "unknown option replica"),
        ("nats://a?monitor=8222", "monitor is the HTTP address"),
        ("nats://a?ca=/no/such.pem", "there is no file /no/such.pem"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused_without_its_secrets(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        parse_address(url.replace("//a", "//ada:secret@a", 1))

    assert "secret" not in str(caught.value)


async def test_files_that_are_no_certificates_and_no_credentials_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nkeys", None)
    whole = tmp_path / "arena.creds"
    whole.write_text("-----BEGIN NATS USER JWT-----\n…\n-----BEGIN USER NKEY SEED-----\n…\n", encoding="utf-8")
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate\n")

    for option, says in [
        (f"?ca={junk}", "has no certificate in PEM form"),
        (f"?certificate={junk}", "has no certificate and key"),
        (f"?credentials={junk}", "nsc generate creds"),
        (f"?credentials={whole}", r'pip install "holdfast\[cluster\]"'),
    ]:
        with pytest.raises(ValueError, match=says):
            await NatsStore(f"tls://127.0.0.1:1/arena{option}").open()


@every_case("key", ["a", "a/b/c", "".join(map(chr, range(33, 127))).replace("/", ""), "*/>/.", "=2F", "a=/$"])
def test_every_key_has_a_subject_of_its_own_and_is_read_from_it(key: str) -> None:
    subjects = Subjects("arena")

    subject = subjects.of_key(key)

    assert subjects.key_in(subject) == key
    assert subjects.part_in(subjects.of_part(key, 7)) == (key, 7)
    assert not set("*> ") & set(subject)
    assert "" not in subject.split(".")


def test_without_its_library_a_store_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)

    with pytest.raises(ValueError, match=r'pip install "holdfast\[cluster\]"'):
        NatsStore("nats://127.0.0.1:4222")


# What is in the stream


async def subjects_in(store: NatsStore) -> set[str]:
    """The subjects that have a message which is not a mark."""
    subjects = Subjects(store.address.name)
    info = await ask(store, f"STREAM.INFO.{subjects.stream}", subjects_filter=">")
    found = info["state"].get("subjects", {})
    alive = set()
    for subject in found:
        message = await ask(store, f"STREAM.MSG.GET.{subjects.stream}", last_by_subj=subject)
        if "data" in message["message"]:
            alive.add(subject.removeprefix(f"hf.{store.address.name}."))
    return alive


async def test_a_value_larger_than_a_message_is_split_and_leaves_no_part_behind(store: NatsStore, url: str) -> None:
    large, larger = os.urandom(2 * PAYLOAD), os.urandom(3 * PAYLOAD)
    first = await store.put("room/a", large, ABSENT)
    second = await store.put("room/a", larger, first)
    other = NatsStore(url)
    await other.open()

    assert [entry.value for entry in await other.list("room")] == [larger]
    found = await other.get("room/a")
    assert found is not None
    assert (found.value, found.revision) == (larger, second)
    with pytest.raises(RevisionConflict):
        await other.put("room/a", large, first)
    assert await subjects_in(store) == {"key.room.a", "part.room.a.1", "part.room.a.2", "part.room.a.3"}

    third = await other.put("room/a", large, second)
    assert await subjects_in(store) == {"key.room.a", "part.room.a.1", "part.room.a.2"}
    await other.delete("room/a", third)
    assert await subjects_in(store) == set()
    assert await other.list("") == []
    await other.close()


async def test_parts_of_different_writes_are_never_joined(store: NatsStore, url: str) -> None:
    revision = await store.put("k", bytes(2 * PAYLOAD), ABSENT)
    subjects = Subjects(store.address.name)
    link = NatsLink(store.address, Limits())
    await link.open()
    await link.request(subjects.of_part("k", 1), b"of another write")
    await link.close()

    with pytest.raises(Unavailable, match="overwritten"):
        await store.get("k")
    again = NatsStore(url, limits=Limits(nats_answer_s=0.05))
    await again.open()
    with pytest.raises(Unavailable, match="overwritten"):
        await again.list("")
    await again.close()

    await store.put("k", b"whole", revision)
    assert [entry.value for entry in await store.list("")] == [b"whole"]


async def test_a_deleted_key_can_be_written_with_its_mark_and_when_the_mark_is_gone(store: NatsStore) -> None:
    subjects = Subjects(store.address.name)
    for _ in range(2):
        await store.delete("k", await store.put("k", b"1", ABSENT))
    await ask(store, f"STREAM.PURGE.{subjects.stream}", filter=subjects.of_key("k"))  # as its time to live does

    revision = await store.put("k", b"2", ABSENT)

    assert [entry.revision for entry in await store.list("k")] == [revision]


async def test_a_mark_that_nats_leaves_by_itself_is_no_value(store: NatsStore) -> None:
    link = NatsLink(store.address, Limits())
    await link.open()
    await link.request(Subjects(store.address.name).of_key("k"), b"", {"Nats-Marker-Reason": "MaxAge"})
    await link.close()

    assert (await store.get("k"), await store.list("")) == (None, [])
    assert await store.put("k", b"1", ABSENT)


async def test_a_list_is_never_half_of_a_batch(store: NatsStore, url: str) -> None:
    other = NatsStore(url)
    await other.open()
    keys = [f"k/{number}" for number in range(40)]

    async def write() -> None:
        known = dict.fromkeys(keys, ABSENT)
        for turn in range(1, 150):
            [revisions] = await store.commit([[Write(key, b"%d" % turn, known[key]) for key in keys]])
            assert isinstance(revisions, list)
            known = dict(zip(keys, revisions, strict=True))

    writing = asyncio.create_task(write())
    seen = set()
    while not writing.done():
        entries = await other.list("k")
        assert len(entries) in {0, len(keys)}
        assert len({entry.value for entry in entries}) <= 1
        seen |= {entry.value for entry in entries}
    await writing
    await other.close()
    assert len(seen) > 2


async def test_a_commit_of_many_rooms_is_a_few_batches(store: NatsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    request = NatsLink.request

    async def counted(link: NatsLink, subject: str, *arguments: Any, **settings: Any) -> Any:
        sent.append(subject)
        return await request(link, subject, *arguments, **settings)

    monkeypatch.setattr(NatsLink, "request", counted)

    outcomes = await store.commit([[Write(f"room/{n}", b"", ABSENT), Write(f"s/{n}", b"", ABSENT)] for n in range(600)])

    assert all(isinstance(outcome, list) for outcome in outcomes)
    assert len(sent) == 3  # 1,200 values, 500 in a batch


# What NATS says, and what it means


class Answers:
    """Answers of a NATS server that a test makes up, for the next conditional writes of any link."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made_up: list[dict[str, Any] | type[Exception]] = []
        request = NatsLink.request

        async def answered(link: NatsLink, subject: str, payload: bytes, headers: Any = None, **settings: Any) -> Any:
            if not headers or not self.made_up:
                return await request(link, subject, payload, headers, **settings)
            answer = self.made_up.pop(0)
            if isinstance(answer, dict):
                message: Any = type("Message", (), {"data": json.dumps({"error": answer}).encode()})
                return message
            await request(link, subject, payload, headers, **settings)
            raise answer

        monkeypatch.setattr(NatsLink, "request", answered)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(monkeypatch)


async def test_another_write_in_flight_says_nothing_about_who_wins(store: NatsStore, answers: Answers) -> None:
    revision = await store.put("k", b"1", ABSENT)

    answers.made_up = [{"err_code": 10164, "description": "wrong last sequence"}] * 3
    second = await store.put("k", b"2", revision)  # the other one was not written
    answers.made_up = [{"err_code": 10164}]
    with pytest.raises(RevisionConflict) as caught:
        await store.put("k", b"3", revision)  # the other one was

    assert caught.value.found == second


async def test_a_write_that_stays_in_flight_is_unavailable_and_not_written(store: NatsStore, answers: Answers) -> None:
    answers.made_up = [{"err_code": 10164}] * 100

    with pytest.raises(Unavailable):
        await store.put("k", b"1", ABSENT)

    assert await store.get("k") is None


async def test_an_answer_that_does_not_come_leaves_the_outcome_unknown(store: NatsStore, answers: Answers) -> None:
    answers.made_up = [NoAnswer]

    with pytest.raises(Unknown):
        await store.put("k", b"1", ABSENT)

    assert [entry.value for entry in await store.list("")] == [b"1"]


async def test_a_read_that_is_older_than_what_was_written_is_no_conflict(
    store: NatsStore, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await store.put("k", b"1", ABSENT)
    second = await store.put("k", b"2", first)

    async def old(*_: object) -> SavedMessage:
        return SavedMessage(first, b"1", {})

    with monkeypatch.context() as patch:
        patch.setattr(NatsReader, "last", old)
        answers.made_up = [{"err_code": 10071}]
        with pytest.raises(Unavailable, match="cut off"):
            await store.put("k", b"3", second)
        answers.made_up = [{"err_code": 10071}]
        with pytest.raises(RevisionConflict):
            await store.put("k", b"3", 2**40)  # no revision of this store

    assert await store.put("k", b"3", second)


async def test_a_write_that_takes_too_long_is_not_sent_again(url: str, answers: Answers) -> None:
    store = NatsStore(url, limits=Limits(nats_answer_s=0.05))
    await store.open()
    answers.made_up = [{"err_code": 10164}] * 100

    with pytest.raises(Unavailable, match="too long"):
        await store.put("k", b"1", ABSENT)

    assert len(answers.made_up) > 90
    await store.close()


async def test_what_was_written_before_a_refusal_makes_the_outcome_unknown(store: NatsStore, answers: Answers) -> None:
    batches = [[Write(f"k/{n}", bytes(100_000), ABSENT)] for n in range(60)]  # two batches of NATS

    answers.made_up = [{"err_code": 10077, "description": "maximum bytes exceeded"}]
    with pytest.raises(Full, match="maximum bytes"):
        await store.commit(batches)
    assert await store.list("") == []

    first = NatsLink.request
    calls = []

    async def second_fails(link: NatsLink, subject: str, payload: bytes, headers: Any = None, **settings: Any) -> Any:
        calls.append(subject)
        if len(calls) > 1:
            raise Unavailable("gone")
        return await first(link, subject, payload, headers, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NatsLink, "request", second_fails)
        with pytest.raises(Unknown):
            await store.commit(batches)
    assert 0 < len(await store.list("")) < len(batches)


async def test_a_full_stream_refuses_and_forgets_nothing(store: NatsStore) -> None:
    subjects = Subjects(store.address.name)
    info = await ask(store, f"STREAM.INFO.{subjects.stream}")
    await ask(store, f"STREAM.UPDATE.{subjects.stream}", **info["config"] | {"max_bytes": 20_000})
    revision = await store.put("a", bytes(10_000), ABSENT)

    with pytest.raises(Full):
        await store.put("b", bytes(15_000), ABSENT)

    assert [entry.revision for entry in await store.list("")] == [revision]


# Setup


async def opened(url: str, claim: Claim = "sole") -> None:
    store = NatsStore(url)
    await store.open(claim)
    await store.close()


async def test_a_server_that_is_not_there_or_without_jetstream_is_refused_with_what_to_do(server: NatsServer) -> None:
    limits = Limits(nats_connect_s=0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="check that it runs"):
            await NatsStore(f"nats://127.0.0.1:{taken.getsockname()[1]}", limits=limits).open()

    server.jetstream = False
    server.start()
    with pytest.raises(ValueError, match=r"no JetStream.*sync_interval: always"):
        await opened(server.url)


async def test_a_server_that_acknowledges_before_it_saves_is_refused_or_warned_of(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.settings["sync"] = "2m"
    server.settings["batch"] = 100
    server.start()

    with pytest.raises(ValueError, match=r"not saved: add `sync_interval: always`"):
        await opened(f"{server.url}?monitor={server.monitor}")
    with pytest.raises(Unavailable, match="does not say how NATS saves"):
        await opened(f"{server.url}?monitor={server.url.replace('nats:', 'http:')}")
    await opened(server.url)

    assert warnings(caplog) == [
        "it cannot be seen whether NATS saves what it acknowledges: by default it waits up to two minutes",
        "a room with more values than NATS takes in one batch could not be saved",
    ]
    store = NatsStore(server.url)
    await store.open()
    with pytest.raises(Unavailable, match=r"max_msgs: 20000"):
        await store.commit([[Write(f"k/{n}", b"", ABSENT) for n in range(101)]])
    await store.close()


async def test_a_server_that_is_as_it_should_be_is_not_warned_of(url: str, caplog: pytest.LogCaptureFixture) -> None:
    await opened(url)

    assert warnings(caplog) == []


async def test_without_passwords_and_encryption_only_this_machine_is_fine(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Not the text of a loopback address, so it might be any other machine.
    server = shared_server()
    await opened(f"nats://127.1:{server.port}/{name}?monitor={server.monitor}")

    assert warnings(caplog) == [
        "whoever reaches the NATS server can read and change this store",
        "the link to NATS is not encrypted",
    ]


async def test_a_cluster_across_machines_is_refused_without_a_password_or_without_encryption(
    name: str, server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    shared = shared_server()
    # Not the text of a loopback address, so it might be any other machine.
    open_to_all = f"nats://127.1:{shared.port}/{name}?monitor={shared.monitor}"
    server.settings["more"] = 'authorization { user: "ada", password: "secret" }'
    server.start()

    with pytest.raises(ValueError, match=r"read and change this store: add `authorization .*\?insecure=yes"):
        await opened(open_to_all, "member")
    with pytest.raises(ValueError, match=r"is not encrypted: add `tls .*write tls:// instead of nats://"):
        await opened(f"nats://ada:secret@127.1:{server.port}", "member")
    await opened(f"{open_to_all}&insecure=yes", "member")

    assert warnings(caplog) == [
        "whoever reaches the NATS server can read and change this store",
        "the link to NATS is not encrypted",
        "this cluster has one NATS server: while its machine is away, durable rooms of all nodes stand still",
    ]


async def test_with_certificates_on_both_sides_nobody_needs_a_password_and_nobody_without_one_gets_in(
    server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name, issuer in (("server", authority), ("node", authority), ("stranger", stranger)):
        issuer.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
    server.settings["more"] = (
        f'tls {{ cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server.pem", ca_file: "{tmp_path}/ca.pem",'
        " verify: true }"
    )
    server.start()
    place = f"tls://127.0.0.1:{server.port}/arena?monitor={server.monitor}&ca={tmp_path}/ca.pem"

    await opened(f"{place}&certificate={tmp_path}/node.pem", "member")
    link = NatsLink(parse_address(f"{place}&certificate={tmp_path}/node.pem"), Limits())
    await link.open()
    assert link.server["tls_verify"]
    await link.close()
    for certificate in ("", f"&certificate={tmp_path}/stranger.pem"):
        with pytest.raises(Unavailable, match="check the certificates"):
            await NatsStore(f"{place}{certificate}", limits=Limits(nats_connect_s=1.5)).open("member")

    assert warnings(caplog) == []


async def test_the_link_is_encrypted_and_a_password_is_used_and_a_wrong_one_is_refused(
    server: NatsServer, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    server.settings["more"] = (
        f'tls {{ cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server.pem" }}\n'
        'authorization { user: "ada", password: "s/e@cret" }'
    )
    server.start()
    place = f"127.0.0.1:{server.port}/arena?ca={tmp_path}/ca.pem"

    await opened(f"tls://ada:s%2Fe%40cret@{place}")
    refused = await refusal(f"tls://ada:wrong@{place}", "check the user and the password")

    assert "wrong" not in str(refused)


async def test_a_connection_that_never_ends_does_not_hold_up_who_closes_it() -> None:
    class Endless:
        async def close(self) -> None:
            await asyncio.Event().wait()

    link = NatsLink(parse_address("nats://127.0.0.1:4222/arena"), Limits(nats_answer_s=0.05))
    link._client = Endless()  # type: ignore[assignment]  # noqa: SLF001 - as a client that broke while it was made

    async with asyncio.timeout(DEADLINE_S):
        await link.close()


async def test_a_read_is_asked_again_and_does_not_wait_for_a_server_that_has_just_gone(name: str) -> None:
    address = parse_address(f"{shared_server().url}/{name}")
    link, other = NatsLink(address, Limits(nats_answer_s=DEADLINE_S)), NatsLink(address, Limits())
    await link.open()
    await other.open()
    heard: list[bytes] = []

    async def asked(message: Any) -> None:
        heard.append(message.data)
        if len(heard) > 1:
            await other.reply(message, b"here")

    await other.listen(f"hf.{name}.alive.one", asked)
    began_at = time.monotonic()
    answer = await link.request(f"hf.{name}.alive.one", b"?", again_s=0.02)

    assert (answer.data, heard) == (b"here", [b"?", b"?"])
    assert time.monotonic() - began_at < DEADLINE_S / 2
    await link.close()
    await other.close()


class Impostor:
    """It takes connections as a NATS server does, or says nothing at all, and notes what it hears."""

    def __init__(self, *, words: bytes = b"") -> None:
        self._words = words
        self.heard = b""
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._words)
        self.heard += await reader.read()
        writer.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()


async def test_a_server_that_does_not_encrypt_is_told_no_password_if_the_address_says_tls() -> None:
    impostor = Impostor(words=b'INFO {"server_id": "x", "version": "2.15.1", "max_payload": 1048576}\r\n')
    port = await impostor.open()

    await refusal(f"tls://ada:secret@127.0.0.1:{port}", "does not encrypt: add `tls")

    await impostor.close()
    assert impostor.heard == b""


async def test_each_of_several_servers_has_the_time_that_one_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server, limits = shared_server(), Limits(nats_connect_s=0.1)
    connect = Client.connect

    async def silent_at_first(client: Client, *arguments: Any, **settings: Any) -> None:
        await asyncio.sleep(0.2)
        await connect(client, *arguments, **settings)

    monkeypatch.setattr(Client, "connect", silent_at_first)
    with pytest.raises(Unavailable):
        await NatsStore(f"{server.url}/{name}", limits=limits).open()
    store = NatsStore(f"{','.join([server.url] * 100)}/{name}", limits=limits)
    await store.open()

    await store.close()


async def refusal(url: str, says: str) -> Unavailable:
    """Why a store does not open. A machine that is busy may need longer to find the reason that is meant."""
    for patience_s in (0.2, 1.0, DEADLINE_S):
        store = NatsStore(url, limits=Limits(nats_connect_s=patience_s, nats_reconnect_s=0.01))
        with pytest.raises(Unavailable) as caught:
            await store.open()
        if says in str(caught.value):
            return caught.value
    raise AssertionError(f"{says} is not said")


async def test_a_permission_that_is_missing_is_named_at_once(server: NatsServer) -> None:
    everything = ["hf.a.>", "$JS.API.>"]
    cases = [
        (["hf.a.>"], ["hf.a.>"], "publish to $JS.API.INFO"),
        (["hf.a.>", "$JS.API.INFO", "$JS.API.STREAM.INFO.*"], ["hf.a.>"], "publish to $JS.API.STREAM.CREATE.hf-a"),
        (["hf.a.holder", "hf.a.inbox.>", "$JS.API.>"], ["hf.a.>"], "publish to hf.a.key.trial"),
        (everything, ["elsewhere"], "subscribe to hf.a.inbox."),
        (everything, ["hf.a.inbox.>"], "subscribe to hf.a.alive."),
    ]
    users = [
        f'{{ user: "u{number}", password: "p", permissions {{ publish: {json.dumps(publish)}, subscribe:'
        f" {json.dumps(subscribe)} }} }}"
        for number, (publish, subscribe, _) in enumerate(cases)
    ]
    server.settings["more"] = f"authorization {{ users: [{', '.join(users)}] }}"
    server.start()

    for number, (_, _, says) in enumerate(cases):
        with pytest.raises(Unavailable, match=re.escape(says)):
            await opened(f"nats://u{number}:p@127.0.0.1:{server.port}/a")


async def test_a_server_that_takes_only_small_messages_is_refused(server: NatsServer) -> None:
    server.settings["payload"] = 4096
    server.start()

    with pytest.raises(ValueError, match=r"above 4096 bytes: add `max_payload: 1MB`"):
        await opened(server.url)


async def test_the_configuration_that_is_shipped_lets_a_store_do_what_it_needs_and_no_other(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    text = (ROOT / "deploy" / "nats" / "nats.conf").read_text()
    for line in ('listen: "0.0.0.0:4222"', 'http: "127.0.0.1:8222"', "max_payload: 1MB", 'store_dir: "/var/lib/nats"'):
        assert line in text
        text = text.replace(line, f'store_dir: "{tmp_path}/data"' if "store_dir" in line else "")
    server.jetstream = False
    server.settings["more"] = text
    server.start()
    place = server.url.replace("nats://", "nats://arena:change-me@")
    try:
        store = NatsStore(f"{place}/arena?monitor={server.monitor}")
        await store.open("sole")
        first = await store.put("a/1", bytes(2 * PAYLOAD), ABSENT)
        await store.commit([[Write("a/1", b"1", first), Write("a/2", b"2", ABSENT)]])
        assert [entry.value for entry in await store.list("a")] == [b"1", b"2"]
        with pytest.raises(Held):
            await opened(f"{place}/arena")
        await store.close()

        with pytest.raises(Unavailable, match=r"may not subscribe to hf\.other\.inbox"):
            await NatsStore(f"{place}/other").open()
    finally:
        server.kill()


async def test_a_stream_that_is_no_store_is_left_alone(store: NatsStore, url: str) -> None:
    subjects = Subjects(store.address.name)
    info = await ask(store, f"STREAM.INFO.{subjects.stream}")
    for change, says in [
        ({"discard": "old", "max_age": 10**12}, "discard, max_age"),
        ({"max_msg_size": 1000, "max_msgs": 100}, "max_msgs, max_msg_size"),
        ({"no_ack": True}, "no_ack"),
        ({"subject_transform": {"src": "hf.>", "dest": "elsewhere.>"}}, "subject_transform"),
        ({"retention": "interest"}, "retention"),
    ]:
        await ask(store, f"STREAM.UPDATE.{subjects.stream}", **info["config"] | change)
        with pytest.raises(ValueError, match=f"because of its {says}: .*another name"):
            await opened(url)


async def test_a_tool_makes_no_store(url: str) -> None:
    with pytest.raises(ValueError, match="there is no store nats://"):
        await NatsStore(url, must_exist=True).open()


# Who has it


TAKEN_OVER = "another server took over this store: its rooms are no longer here"
HOLDER = """
import asyncio, sys
from holdfast.stores import NatsStore

async def main():
    store = NatsStore(sys.argv[1])
    await store.open("sole")
    print("open", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_a_second_server_is_refused_while_the_first_lives_even_if_it_hangs_and_not_longer(
    url: str, store: NatsStore
) -> None:
    async with python_process("-c", HOLDER, url) as process:
        await read_until(process, "open")
        second = NatsStore(url)

        with pytest.raises(Held, match=f"process {process.pid} on .* --takeover") as caught:
            await second.open("sole")
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(Held):
            await second.open("sole")
        await store.put("k", b"1", ABSENT)  # a tool may
        process.kill()
        await process.wait()
        await second.open("sole")

    assert str(process.pid) in caught.value.holder
    assert await second.reclaim()
    await second.close()


async def test_a_takeover_is_told_to_the_former_server_which_takes_the_store_back_when_it_is_free(
    url: str, store: NatsStore, caplog: pytest.LogCaptureFixture
) -> None:
    former, taker = NatsStore(url), NatsStore(url)
    await former.open("sole")
    assert await former.reclaim()

    await taker.open("takeover")

    assert not await former.reclaim()
    async with asyncio.timeout(DEADLINE_S):
        while TAKEN_OVER not in warnings(caplog):  # noqa: ASYNC110 - a deadline, not a time
            await asyncio.sleep(0.01)
    await taker.close()
    assert not await store.reclaim()  # a tool has no claim
    assert await former.reclaim()
    await former.close()
    await opened(url)


# When the server goes


async def test_what_was_acknowledged_survives_any_kill_of_the_nats_server(server: NatsServer) -> None:
    server.start()
    store = NatsStore(server.url, limits=Limits(nats_reconnect_s=0.02, nats_answer_s=1.0))
    await store.open()
    acknowledged: dict[str, int] = {}
    started: dict[str, int] = {}

    async def write(key: str) -> None:
        """Count a key and its twin up, as the committer does: what has no answer is read back."""
        value, revisions = 0, [ABSENT, ABSENT]
        async with asyncio.timeout(DEADLINE_S):
            while value < 60:
                value += 1
                started[key] = value
                batch = [Write(f"{key}/{n}", b"%d" % value, revision) for n, revision in enumerate(revisions)]
                revisions = await written(store, batch)
                acknowledged[key] = value
                if value % 20 == 10 and key == "a":
                    server.kill()
                    server.start()

    await asyncio.gather(write("a"), write("b"))

    assert acknowledged == {"a": 60, "b": 60}
    found = {entry.key: entry.value for entry in await store.list("")}
    assert found == {f"{key}/{n}": b"60" for key in "ab" for n in (0, 1)}
    await store.close()


async def written(store: NatsStore, batch: list[Write]) -> list[int]:
    """Until the batch is written once: never lost, and never refused by itself."""
    while True:
        try:
            [outcome] = await store.commit([batch])
        except (Unavailable, Unknown):
            outcome = RevisionConflict("", 0, 0)
        if isinstance(outcome, list):
            return list(outcome)
        try:
            entries = [await store.get(write.key) for write in batch]
        except (Unavailable, Unknown):
            await asyncio.sleep(0.02)
            continue
        if [entry and entry.value for entry in entries] == [write.value for write in batch]:
            return [entry.revision for entry in entries if entry is not None]
        mine = {write.value for write in batch}
        assert all(
            (entry.revision if entry else ABSENT) == write.revision or (entry is not None and entry.value in mine)
            for entry, write in zip(entries, batch, strict=True)
        )


async def test_a_server_that_pings_and_answers_nothing_is_left_after_two_silences_not_two_requests(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = NatsStore(url, limits=Limits(nats_answer_s=0.02))
    await store.open()
    left: list[int] = []

    async def leave(_: Client) -> None:
        left.append(len(warnings(caplog)))

    monkeypatch.setattr(Client, "force_reconnect", leave)
    monkeypatch.setattr(Client, "publish", nothing)
    for expected in (0, 1, 1, 2):
        found = await asyncio.gather(*(store.get(f"k{number}") for number in range(8)), return_exceptions=True)
        assert {type(each) for each in found} == {NoAnswer}
        assert len(left) == expected
    await store.close()


async def nothing(*_: object, **__: object) -> None:
    """What is published goes nowhere."""


async def test_a_store_whose_server_is_gone_says_so_at_once_and_goes_on_when_it_is_back(server: NatsServer) -> None:
    server.start()
    store = NatsStore(server.url, limits=Limits(nats_reconnect_s=0.02, nats_answer_s=DEADLINE_S))
    await store.open()
    revision = await store.put("k", b"1", ABSENT)
    server.kill()

    with pytest.raises((Unavailable, Unknown)):
        await store.put("k", b"2", revision)
    with pytest.raises((Unavailable, Unknown)):
        await store.get("k")

    server.start()
    [revision] = await written(store, [Write("k", b"2", revision)])
    assert await store.put("k", b"3", revision) > revision
    await store.close()


# Three servers


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[NatsServer]]:
    """A cluster of NATS servers."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    routes = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    listed = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
    servers = []
    for number, route in enumerate(routes):
        (tmp_path / str(number)).mkdir()
        cluster = f'{{ name: "c", listen: "127.0.0.1:{route}", routes: [{listed}] }}'
        servers.append(NatsServer(tmp_path / str(number), more=f'server_name: "n{number}"\ncluster {cluster}'))
    for server in servers:
        server.start()
    yield servers
    for server in servers:
        server.kill()


async def test_three_servers_keep_each_record_three_times_and_one_may_go(three: list[NatsServer]) -> None:
    url = ",".join(server.url for server in three)
    store = NatsStore(f"{url}/three", limits=Limits(nats_answer_s=1.0, nats_reconnect_s=0.05))
    await eventually_open(store)
    revisions = {key: await store.put(key, b"1", ABSENT) for key in ("a", "b")}
    assert [entry.revision for entry in await store.list("")] == list(revisions.values())
    subjects = Subjects("three")
    info = await ask(store, f"STREAM.INFO.{subjects.stream}")
    # Not a leader, of the stream or of them all: to choose another one takes NATS many seconds.
    with urllib.request.urlopen(f"{three[0].monitor}/jsz") as answer:  # noqa: S310, ASYNC210 - on this machine
        leaders = {info["cluster"]["leader"], json.load(answer)["meta_cluster"]["leader"]}
    follower = next(server for number, server in enumerate(three) if f"n{number}" not in leaders)

    follower.kill()
    after = {key: (await written(store, [Write(key, b"2", revision)]))[0] for key, revision in revisions.items()}
    found = [await store.get(key) for key in after]

    assert info["config"]["num_replicas"] == 3
    assert [entry and (entry.value, entry.revision) for entry in found] == [(b"2", each) for each in after.values()]
    with pytest.raises(RevisionConflict) as caught:
        await store.put("a", b"3", revisions["a"])
    assert caught.value.found == after["a"]
    await store.close()


async def eventually_open(store: NatsStore) -> None:
    """A cluster needs a moment to find its leader."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await store.open("sole")
            except (Unavailable, Unknown, ValueError):
                await asyncio.sleep(0.05)
