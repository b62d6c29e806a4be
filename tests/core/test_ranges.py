"""Ranges of addresses: how they are written, and which of many an address lies in."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.addresses import RangeTable, read_address, read_range
from tests.cases import every_case

networks = st.one_of(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 32)).map(lambda pair: ip_network(pair, strict=False)),
    st.tuples(st.integers(2**100, 2**128 - 1), st.integers(0, 128)).map(lambda pair: ip_network(pair, strict=False)),
)


@every_case(
    ("written", "meant"),
    [
        ("203.0.113.7", "203.0.113.7/32"),
        ("203.0.113.0/24", "203.0.113.0/24"),
        ("203.0.113.7/24", "203.0.113.0/24"),
        (" 203.0.113.7 ", "203.0.113.7/32"),
        ("2001:DB8::7", "2001:db8::7/128"),
        ("2001:db8::7/32", "2001:db8::/32"),
        ("::ffff:203.0.113.7", "203.0.113.7/32"),
        ("::ffff:203.0.113.0/120", "203.0.113.0/24"),
        ("::/0", "::/0"),
    ],
)
def test_a_range_is_read_as_people_write_it(written: str, meant: str) -> None:
    assert str(read_range(written)) == meant


@every_case("written", ["", "ada", "203.0.113", "203.0.113.0/33", "203.0.113.0/-1", "1.2.3.4:80", "::/129"])
def test_what_is_no_range_is_refused(written: str) -> None:
    with pytest.raises(ValueError):
        read_range(written)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("fe80::1%eth0", "fe80::1"),
        ("client 1", None),
        ("", None),
    ],
)
def test_the_address_of_a_peer_is_read_without_its_surroundings(peer: str, address: str | None) -> None:
    assert read_address(peer) == (ip_address(address) if address is not None else None)


def test_an_address_lies_in_every_range_around_it_and_in_no_other() -> None:
    table: RangeTable[str] = RangeTable()
    for written in ("203.0.113.0/24", "203.0.0.0/16", "203.0.113.7", "203.0.112.0/24", "2001:db8::/32", "::/0"):
        table.put(read_range(written), written)

    assert set(table.around("203.0.113.7")) == {"203.0.113.0/24", "203.0.0.0/16", "203.0.113.7"}
    assert set(table.around("203.0.112.1")) == {"203.0.0.0/16", "203.0.112.0/24"}
    assert set(table.around("2001:db8:1::9")) == {"2001:db8::/32", "::/0"}
    assert set(table.around("::ffff:203.0.112.1")) == {"203.0.0.0/16", "203.0.112.0/24"}
    assert set(table.around("198.51.100.1")) == set()
    assert set(table.around("no address")) == set()


def test_a_range_that_was_removed_is_not_found_and_leaves_nothing_behind() -> None:
    table: RangeTable[str] = RangeTable()
    table.put(read_range("203.0.113.0/24"), "wide")
    table.put(read_range("203.0.113.7"), "narrow")

    table.remove(read_range("203.0.113.9/24"))

    assert list(table.around("203.0.113.7")) == ["narrow"]
    table.remove(read_range("203.0.113.7"))
    assert list(table.around("203.0.113.7")) == []
    assert vars(table) == vars(RangeTable())


@given(st.lists(networks, max_size=12), st.data())
def test_the_table_finds_what_looking_at_each_range_would(written: list[object], data: st.DataObject) -> None:
    ranges = [read_range(str(each)) for each in written]
    table: RangeTable[str] = RangeTable()
    for each in ranges:
        table.put(each, str(each))
    near = data.draw(st.sampled_from(ranges)) if ranges else read_range("203.0.113.0/24")
    offset = data.draw(st.integers(0, min(near.num_addresses - 1, 2**40)))
    address = near.network_address + offset
    # What stands for an IPv4 address counts as one.
    known = read_address(str(address))
    assert known is not None

    assert set(table.around(str(address))) == {str(each) for each in ranges if known in each}
