"""The counting game, with every count on the disk before it is acknowledged."""

from tests.e2e.counting import Counting


class DurableCounting(Counting):
    """Served by `holdfast serve` in a process of its own, that is killed."""

    kind = "counting"
    durability = "commit"
