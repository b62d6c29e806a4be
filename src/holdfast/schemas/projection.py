"""From one struct to another that lists some of its fields: a new field of the source is left out until the target
declares it too. And from a struct to a dict with all of its fields."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def project(source: Struct, target: type[T], **given: Any) -> T:
    """The fields of the source that the target declares; `given` adds to or replaces them.

    Fields of the target that neither has keep their default.
    """
    names, read = _shared(type(source), target)
    if not given and names == target.__match_args__:  # every field, and none by keyword alone
        return target(*read(source))
    fields = dict(zip(names, read(source), strict=True))
    fields.update(given)
    return target(**fields)


def whole(value: Any) -> Any:
    """A struct as a dict, with the fields that have their defaults too: game clients are not sent those, to save bytes,
    but readers of this API should not need to know the defaults."""
    if isinstance(value, Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {encoded: whole(getattr(value, name)) for name, encoded in names}
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [whole(each) for each in value]
    return value


@cache
def _shared(source: type[Struct], target: type[Struct]) -> tuple[tuple[str, ...], Callable[[Struct], tuple[Any, ...]]]:
    names = tuple(name for name in target.__struct_fields__ if name in source.__struct_fields__)
    # With a single name it would return the value and not a tuple.
    read = attrgetter(*names) if len(names) > 1 else lambda struct: tuple(getattr(struct, name) for name in names)
    return names, read
