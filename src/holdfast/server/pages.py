"""Pages of long lists, sorted by name, so that each page continues after the last."""

from collections.abc import Iterable
from itertools import islice

# Names read at a time while a page is collected.
_NAMES_AT_ONCE = 500


def page_of(names: Iterable[str], limit: int, cursor: str) -> tuple[list[str], str]:
    """The next `limit` names after `cursor`, and the cursor of the next page; empty if this is the last."""
    # Many are read and few are taken: sorting or collecting them all would block the event loop.
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
