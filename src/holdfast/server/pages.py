"""Pages of long lists, by name, so that a page can go on where another ended."""

from collections.abc import Iterable
from itertools import islice

# Names of a list that are looked at together for a page of it.
_NAMES_AT_ONCE = 500


def page_of(names: Iterable[str], limit: int, cursor: str) -> tuple[list[str], str]:
    """So many after the one that the last page ended with; and the cursor for more, empty if there are none."""
    # Many are looked at and few are taken: to sort them all, or to gather them, would keep the games waiting.
    page: list[str] = []
    names = iter(names)
    while some := list(islice(names, _NAMES_AT_ONCE)):
        if len(page) <= limit:
            near = [name for name in some if name > cursor]
        else:
            last = page[-1]
            near = [name for name in some if cursor < name < last]
        if near:
            page = sorted({*page, *near})[: limit + 1]
    return page[:limit], page[limit - 1] if len(page) > limit else ""
