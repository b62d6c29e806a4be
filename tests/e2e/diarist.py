"""A player as a program of its own, that keeps a diary: whoever has the diary can go on after a SIGKILL.

    python -m tests.e2e.diarist ws://127.0.0.1:7777 diary 200

The diary is written anew after every message that was processed or sent, together with the session's state, and when
the session gets a new token. It is never half written.
"""

import asyncio
import sys
from pathlib import Path
from typing import Self

import msgspec

import holdfast
from holdfast import ClientRoom
from tests.e2e.counting import PULSES_HZ, Ask, Begin, Down, Report, Up


class Diary(msgspec.Struct):
    session: bytes | None = None
    numbers: list[int] = msgspec.field(default_factory=list)
    strange: list[str] = msgspec.field(default_factory=list)
    counted: int = 0
    lives: int = 0
    report: Report | None = None

    @classmethod
    def read(cls, file: Path) -> Self:
        return msgspec.msgpack.decode(file.read_bytes(), type=cls) if file.exists() else cls()

    def write(self, file: Path) -> None:
        draft = file.with_suffix(".draft")
        draft.write_bytes(msgspec.msgpack.encode(self))
        draft.replace(file)


class Diarist:
    def __init__(self, url: str, file: Path, messages: int) -> None:
        self._file = file
        self._messages = messages
        self._diary = Diary.read(file)
        self._connecting = holdfast.connect(url, messages=[Down, Report], resume=self._diary.session)
        self._session = self._connecting.session
        # Before the server hears from us again, which makes the old token worthless.
        self._session.on_resume = lambda _: self._save()

    def _save(self) -> None:
        self._diary.session = self._session.save()
        self._diary.write(self._file)

    async def live(self) -> None:
        self._diary.lives += 1
        await self._connecting
        room = self._session.room
        if room is None:
            room = await self._session.join_or_create("counting")
            await room.send(Begin(self._messages, 1))
            self._save()
        sys.stdout.write("playing\n")
        sys.stdout.flush()
        counting = asyncio.create_task(self._count(room))
        await self._listen(room)
        await counting
        await self._session.close()

    async def _count(self, room: ClientRoom) -> None:
        while self._diary.counted <= self._messages:
            await asyncio.sleep(1 / PULSES_HZ)
            self._diary.counted += 1
            await room.send(Up(self._diary.counted) if self._diary.counted <= self._messages else Ask())
            self._save()

    async def _listen(self, room: ClientRoom) -> None:
        while self._diary.report is None or self._diary.numbers[-1] < self._messages:
            match await room.receive():
                case Down(number):
                    self._diary.numbers.append(number)
                case Report() as report:
                    self._diary.report = report
                case other:
                    self._diary.strange.append(repr(other))
            room.acknowledge()
            self._save()


if __name__ == "__main__":
    asyncio.run(Diarist(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])).live())
