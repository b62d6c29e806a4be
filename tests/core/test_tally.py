from holdfast.core.tally import Tally


def test_things_are_counted_by_name() -> None:
    tally = Tally()

    tally.add("hello", "refused")
    tally.add("hello", "refused")
    tally.add("hello", "warned", times=5)

    assert tally.counts() == {("hello", "refused"): 2, ("hello", "warned"): 5}


def test_known_names_are_there_before_anything_happens() -> None:
    assert Tally([("bye",), ("kicked",)]).counts() == {("bye",): 0, ("kicked",): 0}


def test_names_beyond_the_limit_are_counted_together() -> None:
    tally = Tally(names_max=2)

    for number in range(1000):
        tally.add(f"name {number}", "x")

    assert tally.counts() == {("name 0", "x"): 1, ("name 1", "x"): 1, ("other", "other"): 998}


def test_known_names_are_counted_however_many_there_are() -> None:
    tally = Tally([("a",), ("b",), ("c",)], names_max=2)

    tally.add("c")
    tally.add("d")

    assert tally.counts() == {("a",): 0, ("b",): 0, ("c",): 1, ("other",): 1}


def test_what_was_read_does_not_change_any_more() -> None:
    tally = Tally()
    before = tally.counts()

    tally.add("x")

    assert before == {}
