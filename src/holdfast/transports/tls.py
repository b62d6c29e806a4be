"""TLS: the certificate of a server, and a new one without a restart."""

import os
from pathlib import Path
from ssl import OP_NO_RENEGOTIATION, PROTOCOL_TLS_SERVER, SSLContext, SSLError, SSLObject, TLSVersion
from typing import NoReturn

from holdfast.logs import get_logger

log = get_logger("holdfast.server")

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"

_Stamp = tuple[tuple[int, int, int], ...]


class Tls:
    """A certificate chain and its key, as PEM files. TLS 1.3 is spoken, and 1.2 without its CBC suites.

    Give it to `WebSocket(tls=…)` and `Tcp(tls=…)`, and its `context` to `HttpApi(ssl=…)`. When the files change,
    handshakes from then on see the new certificate; connections that are open go on as they are.
    """

    def __init__(self, certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
        """`ValueError` if the files cannot be read, or do not belong together."""
        self.certificate = Path(certificate)
        self.key = Path(key)
        self._stamp = self._files()
        # A context is whole or it is not made: one that is in use is never changed, but another takes its place.
        self._current = self._read()
        self.context = self._read()
        """For listeners: it always shows the current certificate."""
        self.context.sni_callback = self._show_current

    def reload(self) -> bool:
        """Read the files again; if they cannot be used, the certificate from before stays, and the log says why."""
        self._stamp = self._files()
        try:
            self._current = self._read()
        except ValueError as error:
            log.warning("the new certificate cannot be used, the one from before stays in use", error=error)
            return False
        log.info("the certificate was read again", file=str(self.certificate))
        return True

    def reload_if_changed(self) -> None:
        """Read the files again if they are others than last time."""
        if self._files() != self._stamp:
            self.reload()

    def _read(self) -> SSLContext:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.minimum_version = TLSVersion.TLSv1_2
        # Of TLS 1.2 only what TLS 1.3 has too: forward secrecy, and encryption that authenticates. Python's own list
        # still has CBC, which was broken by its padding again and again.
        context.set_ciphers(_CIPHERS)
        # Old TLS lets a client begin the handshake again and again, which costs us more than the client.
        context.options |= OP_NO_RENEGOTIATION
        try:
            # Without a password of ours, OpenSSL would ask for one at the terminal, and wait.
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            message = f"the certificate {self.certificate} with the key {self.key} cannot be used: {_why(error)}"
            raise ValueError(message) from None
        return context

    def _show_current(self, handshake: SSLObject, _: str | None, __: SSLContext) -> None:
        handshake.context = self._current

    def _files(self) -> _Stamp:
        """What tells a file from the one before it; a file that is away for a moment has nothing."""
        return tuple(_stamp(file) for file in (self.certificate, self.key))

    def __repr__(self) -> str:
        return f"Tls({str(self.certificate)!r}, {str(self.key)!r})"


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, SSLError):
        is_mismatch = error.reason == "KEY_VALUES_MISMATCH"
        return "they do not belong together" if is_mismatch else "one of them is not what a PEM file holds"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _no_password() -> NoReturn:
    raise ValueError("the key has a password: store it without one, readable by you alone")
