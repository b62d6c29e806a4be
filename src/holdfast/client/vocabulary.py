"""The types of messages that a client was told about: bodies from the wire become objects here."""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.core.codec import DECODE_ERRORS, BodyDecoder, Codec
from holdfast.core.errors import Invalid, ProtocolError
from holdfast.core.messages import RESERVED, HostChanged, Message, MessageRefused, RoomUpdated, SeatLeft, Untyped


class Vocabulary:
    """A decoder for each type, by its wire name."""

    def __init__(self, codec: Codec, message_types: Iterable[type[Message]]) -> None:
        self._decoders: dict[str, BodyDecoder] = {}
        known: list[type[Message]] = [MessageRefused, SeatLeft, RoomUpdated, HostChanged, *message_types]
        for kind in dict.fromkeys(known):
            if kind.wire_name in self._decoders:
                raise Invalid(f"two types of messages are called {kind.wire_name!r}: set `wire_name` on one of them")
            self._decoders[kind.wire_name] = codec.body_decoder(kind)
        self._any = codec.body_decoder(Any)

    def message(self, name: str, body: msgspec.Raw) -> Message:
        """The typed message; `Untyped` if its type is unknown or its body does not fit the type."""
        decoder = self._decoders.get(name)
        try:
            if decoder is not None:
                try:
                    message: Message = decoder.decode(body)
                except msgspec.ValidationError:
                    if name.startswith(RESERVED):
                        raise
                else:
                    return message
            return Untyped(name, self._any.decode(body))
        except DECODE_ERRORS as error:
            raise ProtocolError(f"the body of a {name!r} cannot be read: {error}") from None
