"""From one struct to another that lists some of its fields.

A projection is an allow-list: it has the fields that it declares, and a field that is new in the source stays out of it
until it is declared there too.
"""

from functools import cache
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def project(source: Struct, target: type[T], **given: Any) -> T:
    """The fields of the source that the target declares; `given` adds to them or takes their place.

    Fields of the target that neither has keep their default.
    """
    fields = {name: getattr(source, name) for name in _shared(type(source), target)}
    return target(**(fields | given if given else fields))


@cache
def _shared(source: type[Struct], target: type[Struct]) -> tuple[str, ...]:
    known = set(source.__struct_fields__)
    return tuple(name for name in target.__struct_fields__ if name in known)
