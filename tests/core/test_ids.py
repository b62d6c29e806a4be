"""Ids that people paste into commands and URLs."""

import re
from random import Random

from holdfast.core.tokens import new_id


def test_an_id_begins_with_a_letter_so_that_no_command_takes_it_for_an_option() -> None:
    random = Random(5)

    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{11}", new_id(random.randbytes(9))) for _ in range(1000))


def test_all_signs_of_an_id_but_the_first_are_random() -> None:
    random = Random(5)
    ids = {new_id(random.randbytes(9)) for _ in range(1000)}

    assert len(ids) == 1000
    assert [len({each[place] for each in ids}) for place in range(12)] == [32, *[64] * 11]
