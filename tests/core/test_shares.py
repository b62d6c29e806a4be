"""What one address may hold of a pool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.addresses import AddressQuota, AddressShares, share_of
from tests.cases import every_case

HOME = "203.0.113.7"


@every_case(
    ("pool", "share", "most"),
    [(20_000, 0.25, 5_000), (10, 0.25, 3), (4, 0.25, 1), (2, 0.25, 1), (1, 0.25, 1), (0, 0.25, 0), (10, 1.0, 10)],
)
def test_a_share_is_a_part_of_the_pool_and_at_least_one(pool: int, share: float, most: int) -> None:
    assert share_of(pool, share) == most


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("203.0.113.7", "203.0.113.8", False),
        ("203.0.113.7", "::ffff:203.0.113.7", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
    ],
)
def test_an_ipv6_network_of_64_bits_is_one_address(one: str, other: str, are_one: bool) -> None:
    quota: AddressQuota[int] = AddressQuota(AddressShares(0.5))

    quota.take(1, one)

    assert quota.is_full(other, 2) == are_one


@every_case("address", ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::5", "192.0.2.1", "", "memory", "agent-7"])
def test_named_networks_and_peers_without_an_address_have_the_whole_pool(address: str) -> None:
    quota: AddressQuota[int] = AddressQuota(AddressShares(0.1, ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]))

    for thing in range(100):
        quota.take(thing, address)

    assert quota.count(address) == 0
    assert not quota.is_full(address, 10)


def test_what_is_given_back_can_be_had_again_and_is_given_back_once() -> None:
    quota: AddressQuota[str] = AddressQuota(AddressShares(0.5))
    quota.take("a", HOME)
    quota.take("a", HOME)
    quota.take("b", HOME)
    assert (quota.count(HOME), quota.is_full(HOME, 4)) == (2, True)

    for _ in range(3):
        quota.give_back("a")
        quota.give_back("unknown")

    assert (quota.count(HOME), quota.is_full(HOME, 4)) == (1, False)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from([HOME, "198.51.100.9", "2001:db8::1"]))))
def test_counts_agree_with_what_is_held(steps: list[tuple[bool, int, str]]) -> None:
    quota: AddressQuota[int] = AddressQuota(AddressShares(0.5))
    held: dict[int, str] = {}

    for takes, thing, address in steps:
        if takes:
            quota.take(thing, address)
            held.setdefault(thing, address)
        else:
            quota.give_back(thing)
            held.pop(thing, None)

        for each in (HOME, "198.51.100.9", "2001:db8::1"):
            assert quota.count(each) == list(held.values()).count(each)


@pytest.mark.parametrize("name", ["10.0.0.0/40", "everywhere", "10.0.0.1/8"])
def test_what_is_no_network_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="neither an address nor a network"):
        AddressShares(0.25, [name])


def test_one_name_instead_of_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match=r"as in \('10.0.0.0/8',\)"):
        AddressShares(0.25, "10.0.0.0/8")
