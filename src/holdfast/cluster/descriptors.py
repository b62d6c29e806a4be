"""Sockets that one node of this machine passes to another one: over a Unix socket (SCM_RIGHTS), each with a key.

The key is said in the relay's own stream too. It comes there afterwards: whoever is told it finds the socket here, or
it was lost. Those that nobody asks for are closed.
"""

import asyncio
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from holdfast.logs import get_logger

log = get_logger("holdfast.cluster")

KEY_BYTES = 16
_NUMBER = struct.Struct("@i")
_EXTRA_BYTES = socket.CMSG_SPACE(_NUMBER.size) if hasattr(socket, "CMSG_SPACE") else 0
_BACKLOG = 128
_WAITING_MAX = 1024
"""Sockets that have come and were not asked for yet; more are closed, and their clients are relayed as before."""


class Descriptors:
    """Those of the node with this life; `folder` is the descriptor of the folder of `DirectBus`. For Linux."""

    def __init__(self, life: str, folder: int, *, kept_s: float) -> None:
        # As short as an address of such a socket has to be, wherever the folder is.
        self._folder = Path(f"/proc/self/fd/{folder}")
        self._own = self._name_of(life)
        self._kept_s = kept_s
        self._loop = asyncio.get_running_loop()
        self._listening: socket.socket | None = None
        self._outgoing: dict[str, socket.socket] = {}
        self._incoming: set[socket.socket] = set()
        self._waiting: dict[bytes, tuple[socket.socket, asyncio.TimerHandle]] = {}

    def _name_of(self, life: str) -> str:
        return str(self._folder / f"{life}.fd")

    def open(self) -> None:
        self._listening = _socket()
        self._listening.bind(self._own)
        self._listening.listen(_BACKLOG)
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
            with suppress(FileNotFoundError):
                os.unlink(self._own)  # noqa: PTH108 - one system call, as quick as closing
        for sock in list(self._incoming):
            self._hang_up(sock)
        for sock in self._outgoing.values():
            sock.close()
        self._outgoing.clear()
        for key in list(self._waiting):
            self._drop(key)

    def knows(self, life: str) -> bool:
        """Whether this node is on this machine, and takes sockets."""
        return Path(self._name_of(life)).exists()

    def pass_on(self, life: str, key: bytes, descriptor: int) -> bool:
        """Pass a socket to another node; False if it cannot take it now. It stays open here too."""
        sock = self._outgoing.get(life)
        try:
            if sock is None:
                sock = _socket()
                try:
                    sock.connect(self._name_of(life))
                except OSError:
                    sock.close()
                    raise
                self._outgoing[life] = sock
            socket.send_fds(sock, [key], [descriptor])
        except BlockingIOError:
            return False
        except OSError as error:
            log.info("a connection cannot be passed to another node", node=life, error=str(error))
            self.forget(life)
            return False
        return True

    def forget(self, life: str) -> None:
        """The node is gone."""
        if (sock := self._outgoing.pop(life, None)) is not None:
            sock.close()

    def take(self, key: bytes) -> socket.socket | None:
        """The socket that has come with this key; the caller closes it."""
        if key not in self._waiting:
            # It was sent before the key was said, but this loop may not have seen it yet.
            self._accept()
            for incoming in list(self._incoming):
                self._read(incoming)
        found = self._waiting.pop(key, None)
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    def _accept(self) -> None:
        while self._listening is not None:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            sock.setblocking(False)
            self._incoming.add(sock)
            self._loop.add_reader(sock, self._read, sock)

    def _read(self, incoming: socket.socket) -> None:
        while incoming in self._incoming:
            try:
                # Not `recv_fds`: before Python 3.13 it ignores the flags, and children would inherit the sockets.
                key, extras, _, _ = incoming.recvmsg(KEY_BYTES, _EXTRA_BYTES, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                key, extras = b"", []
            if not key:
                self._hang_up(incoming)
                return
            for _, _, numbers in extras:
                self._keep(key, socket.socket(fileno=_NUMBER.unpack(numbers)[0]))

    def _keep(self, key: bytes, sock: socket.socket) -> None:
        if len(self._waiting) >= _WAITING_MAX or key in self._waiting:
            sock.close()
        else:
            self._waiting[key] = sock, self._loop.call_later(self._kept_s, self._drop, key)

    def _drop(self, key: bytes) -> None:
        sock, timer = self._waiting.pop(key)
        timer.cancel()
        sock.close()

    def _hang_up(self, incoming: socket.socket) -> None:
        self._incoming.discard(incoming)
        self._loop.remove_reader(incoming)
        incoming.close()


def _socket() -> socket.socket:
    # With messages of their own size, each with the descriptor that it came with.
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    return sock
