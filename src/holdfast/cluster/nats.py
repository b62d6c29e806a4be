"""A bus on core NATS: `hf.<cluster>.beat.<life>` and the like. A link of its own, beside that of the store."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.cluster.port import Answer, Heard, NobodyThere, NoReply
from holdfast.core.limits import Limits, NatsLimits
from holdfast.stores.nats.address import parse_address
from holdfast.stores.nats.link import NatsLink, NoAnswer, NoResponder, check_library
from holdfast.stores.nats.messages import NatsMessage, PublishAck, mark_of_deleted
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.port import Unavailable

if TYPE_CHECKING:
    from nats.aio.msg import Msg

# The mark of a key that never had a value.
_PROOF_KEPT_S = 1


class NatsBus:
    """The bus of the cluster with the name in this address, as in "nats://127.0.0.1:4222/arena"."""

    def __init__(self, address: str, *, limits: NatsLimits | None = None) -> None:
        parsed = parse_address(address)
        check_library()
        self._root = f"hf.{parsed.name}."
        limits = limits or Limits()
        self._link = NatsLink(parsed, limits)
        self._again_s = limits.nats_again_s
        self._proof = NatsMessage(
            Subjects(parsed.name).of_key(f"reached/{secrets.token_urlsafe(12)}"), b"", mark_of_deleted(_PROOF_KEPT_S)
        )
        self._replying: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        for task in self._replying:
            task.cancel()
        await self._link.close()

    def on_reconnect(self, heard: Callable[[], None]) -> None:
        self._link.on_reconnect.append(heard)

    async def reaches_most(self) -> bool:
        """A server that is cut off from the others acknowledges no write: this one leaves nothing behind."""
        subject, payload, headers = self._proof
        try:
            answer = await self._link.request(subject, payload, headers, again_s=self._again_s)
            return msgspec.json.decode(answer.data, type=PublishAck).error is None
        except (Unavailable, NoAnswer, msgspec.MsgspecError):
            return False

    async def tell(self, topic: str, payload: bytes) -> None:
        try:
            await self._link.publish(self._root + topic, payload)
        except (Unavailable, NoAnswer):
            # There is no link: nobody would hear it later either.
            return

    async def listen(self, topic: str, heard: Heard) -> None:
        async def told(message: "Msg") -> None:
            heard(message.subject.removeprefix(self._root), message.data)

        await self._link.listen(self._root + topic, told)

    async def answer(self, topic: str, answer: Answer) -> None:
        async def asked(message: "Msg") -> None:
            reply = answer(message.data)
            if isinstance(reply, bytes):
                await self._link.reply(message, reply)
            else:
                # The next question must not wait for this answer.
                task = asyncio.ensure_future(self._reply(message, reply))
                self._replying.add(task)
                task.add_done_callback(self._replying.discard)

        await self._link.listen(self._root + topic, asked)

    async def _reply(self, message: "Msg", reply: Awaitable[bytes]) -> None:
        await self._link.reply(message, await reply)

    async def ask(self, topic: str, payload: bytes, within_s: float) -> bytes:
        try:
            message = await self._link.request(self._root + topic, payload, within_s=within_s)
        except NoResponder as error:
            raise NobodyThere(topic) from error
        except (Unavailable, NoAnswer) as error:
            raise NoReply(str(error)) from error
        return message.data
