"""Responses: structs as JSON with every field, whether it has its default or not."""

from typing import Any, TypeVar
from urllib.parse import quote

from litestar import Response
from msgspec import Struct

from holdfast.schemas.room import RoomInfo

T = TypeVar("T")


class Answer(Response[T]):
    """A response that shows whole structs."""

    def render(self, content: Any, *args: Any, **kwargs: Any) -> bytes:
        """The struct as JSON."""
        return super().render(whole(content), *args, **kwargs)


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


def room_answer(room: RoomInfo, status: int = 200) -> Answer[RoomInfo]:
    """A room, with its version as the ETag."""
    return Answer(room, status_code=status, headers={"ETag": f'"{room.version}"'})


def path_to(collection: str, resource_id: str) -> str:
    """For the Location header."""
    return f"/v1/{collection}/{quote(resource_id, safe='')}"
