"""Whose connection it is, by what proxies say in HTTP headers, and who is believed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports import websocket
from holdfast.transports.port import BROKEN
from holdfast.transports.proxies import Address, ConflictingHeaders, TrustedProxies
from tests.cases import every_case

PROXY = ("10.0.0.1", 40_000)
PROXIES = TrustedProxies(["10.0.0.0/8", "192.0.2.1", "fd00::/8"])
STRANGER = ("203.0.113.9", 50_000)


def client(headers: Sequence[tuple[str, str]], peer: Address = PROXY) -> Address:
    x_forwarded_for, forwarded = (
        [value for key, value in headers if key.lower() == name] for name in ("x-forwarded-for", "forwarded")
    )
    return PROXIES.client(peer, x_forwarded_for=x_forwarded_for, forwarded=forwarded)


@every_case(
    ("header", "found"),
    [
        ("203.0.113.7", ("203.0.113.7", 0)),
        ("203.0.113.7:51234", ("203.0.113.7", 51234)),
        ("2001:db8::7", ("2001:db8::7", 0)),
        ("[2001:db8::7]:51234", ("2001:db8::7", 51234)),
        ("[2001:db8::7]", ("2001:db8::7", 0)),
        ("::ffff:203.0.113.7", ("203.0.113.7", 0)),
        ("203.0.113.7, 10.0.0.2,192.0.2.1", ("203.0.113.7", 0)),
        ("198.51.100.66, 203.0.113.7, fd00::1", ("203.0.113.7", 0)),
        ("198.51.100.66, 203.0.113.7, ::ffff:10.0.0.2", ("203.0.113.7", 0)),
        ("203.0.113.7:99999", ("203.0.113.7", 0)),
        ("203.0.113.7:-1", ("203.0.113.7", 0)),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(header: str, found: Address) -> None:
    assert client([("X-Forwarded-For", header)]) == found


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("for=203.0.113.7", ("203.0.113.7", 0)),
        ('For="203.0.113.7:51234"', ("203.0.113.7", 51234)),
        ('proto=https;for="[2001:db8::7]:51234";by=10.0.0.1', ("2001:db8::7", 51234)),
        ("for=198.51.100.66, for=203.0.113.7;proto=http, for=10.0.0.2", ("203.0.113.7", 0)),
        ("host=game.example; for = 203.0.113.7", ("203.0.113.7", 0)),
    ],
)
def test_the_standard_header_says_the_same(header: str, found: Address) -> None:
    assert client([("Forwarded", header)]) == found


def test_several_lines_are_one_list() -> None:
    assert client([("X-Forwarded-For", "198.51.100.66"), ("x-forwarded-for", "203.0.113.7")]) == ("203.0.113.7", 0)


@every_case(
    "headers",
    [
        [],
        [("X-Forwarded-For", "")],
        [("X-Forwarded-For", "10.0.0.2, 192.0.2.1")],
        [("X-Forwarded-For", "203.0.113.7, unknown")],
        [("X-Forwarded-For", "203.0.113.7,")],
        [("X-Forwarded-For", "203.0.113.7 10.0.0.2")],
        [("Forwarded", "for=unknown")],
        [("Forwarded", "for=_hidden, for=10.0.0.2")],
        [("Forwarded", 'for="[2001:db8::7')],
        [("Forwarded", "for=203.0.113.7, proto=https")],
    ],
)
def test_a_proxy_that_does_not_say_who_stands_behind_it_is_the_client(headers: list[tuple[str, str]]) -> None:
    assert client(headers) == PROXY


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_who_is_no_proxy_is_not_believed(header: str) -> None:
    said = "203.0.113.7" if header == "X-Forwarded-For" else "for=203.0.113.7"

    assert client([(header, said)], peer=STRANGER) == STRANGER
    assert client([(header, said)], peer=("nonsense", 1)) == ("nonsense", 1)


def test_a_proxy_is_known_in_either_way_of_writing_its_address() -> None:
    assert client([("X-Forwarded-For", "203.0.113.7")], peer=("::ffff:10.0.0.1", 1)) == ("203.0.113.7", 0)
    assert client([("X-Forwarded-For", "203.0.113.7")], peer=("fd00::1%eth0", 1)) == ("203.0.113.7", 0)


def test_headers_that_agree_are_believed_and_those_that_do_not_are_not() -> None:
    by_convention = ("X-Forwarded-For", "203.0.113.7")

    assert client([by_convention, ("Forwarded", 'for="203.0.113.7:51234"')]) == ("203.0.113.7", 0)
    assert client([("X-Forwarded-For", "unknown"), ("Forwarded", "for=_hidden")]) == PROXY
    with pytest.raises(ConflictingHeaders):
        client([by_convention, ("Forwarded", "for=198.51.100.66")])


@pytest.mark.parametrize("nobody", ["for=_hidden", "for=unknown", "for=10.0.0.2", "proto=https"])
def test_a_header_that_names_nobody_is_not_overruled_by_the_other(nobody: str) -> None:
    # The proxy wrote the one, and its client the other.
    with pytest.raises(ConflictingHeaders):
        client([("X-Forwarded-For", "203.0.113.7"), ("Forwarded", nobody)])
    with pytest.raises(ConflictingHeaders):
        client([("X-Forwarded-For", "unknown"), ("Forwarded", "for=203.0.113.7")])


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_the_headers_say_the_client_has_an_address(by_convention: str, by_standard: str) -> None:
    try:
        host, port = client([("X-Forwarded-For", by_convention), ("Forwarded", f"for={by_standard}")])
    except ConflictingHeaders:
        return

    assert 0 <= port <= 65535
    assert (host, port) == PROXY or not PROXIES.trusts(host)


@pytest.mark.parametrize("name", ["", "proxy.example", "10.0.0.0/33", "10.0.0.1/8"])
def test_a_proxy_without_an_address_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(ValueError, match=r'as in "10\.0\.0\.7"'):
        TrustedProxies([name])


def test_one_name_that_should_be_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['10.0.0.7'\]"):
        TrustedProxies("10.0.0.7")


# At the door.


@pytest.mark.parametrize(
    ("proxies", "peer"),
    [(["127.0.0.0/8"], "203.0.113.7:0"), (["10.0.0.0/8"], "127.0.0.1:"), (None, "127.0.0.1:")],
)
async def test_the_peer_of_a_link_is_the_client_that_a_trusted_proxy_names(
    proxies: list[str] | None, peer: str
) -> None:
    recorder = LinkRecorder()
    listener = await websocket.listen(
        lambda: recorder,
        host="127.0.0.1",
        port=0,
        subprotocols=[BINARY],
        limits=LIMITS,
        proxies=None if proxies is None else TrustedProxies(proxies),
    )

    async with connection(listener.addresses[0][1], {"X-Forwarded-For": "198.51.100.66, 203.0.113.7"}):
        assert (await recorder.opening()).peer.startswith(peer)

    await recorder.loss()
    await listener.close()


async def test_a_request_whose_headers_contradict_each_other_opens_no_link() -> None:
    accepted: list[LinkRecorder] = []

    def accept() -> LinkRecorder:
        accepted.append(LinkRecorder())
        return accepted[-1]

    listener = await websocket.listen(
        accept,
        host="127.0.0.1",
        port=0,
        subprotocols=[BINARY],
        limits=LIMITS,
        proxies=TrustedProxies(["127.0.0.1"]),
    )

    headers = {"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=198.51.100.66"}
    async with connection(listener.addresses[0][1], headers) as client:
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == BROKEN
    assert accepted == []
    await listener.close()


def connection(port: int, headers: dict[str, str]) -> connect:
    return connect(
        f"ws://127.0.0.1:{port}", additional_headers=headers, subprotocols=[Subprotocol(BINARY.name)], proxy=None
    )
