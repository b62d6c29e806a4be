"""The codecs of a server, in its order of preference."""

from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.protobuf import PROTOBUF, is_installed

CODECS: dict[str, Codec] = {codec.name: codec for codec in (MSGPACK, JSON, *([PROTOBUF] if is_installed() else []))}
