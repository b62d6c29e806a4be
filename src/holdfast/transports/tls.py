"""TLS: a server's certificate, renewed without a restart."""

import os
from pathlib import Path
from ssl import OP_NO_RENEGOTIATION, PROTOCOL_TLS_SERVER, SSLContext, SSLError, SSLObject, TLSVersion
from typing import NoReturn

from holdfast.logs import get_logger

log = get_logger("holdfast.server")

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"

_Stamp = tuple[tuple[int, int, int], ...]


class Tls:
    """A certificate chain and its key, as PEM files. Supports TLS 1.3, and 1.2 without its CBC suites.

    Give it to `WebSocket(tls=…)` and `Tcp(tls=…)`, and its `context` to `HttpApi(ssl=…)`. When the files change, new
    handshakes use the new certificate; open connections are not affected.
    """

    def __init__(self, certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
        """`ValueError` if the files cannot be read, or do not match."""
        self.certificate = Path(certificate)
        self.key = Path(key)
        self._stamp = self._files()
        # A context in use is never changed: a complete new one replaces it.
        self._current = self._read()
        self.context = self._read()
        """For listeners: it always presents the current certificate."""
        self.context.sni_callback = self._show_current

    def reload(self) -> bool:
        """Reload the files; if they are invalid, the previous certificate stays in use, and the log says why."""
        self._stamp = self._files()
        try:
            self._current = self._read()
        except ValueError as error:
            log.warning("the new certificate is invalid; the previous one stays in use", error=error)
            return False
        log.info("reloaded the certificate", file=str(self.certificate))
        return True

    def reload_if_changed(self) -> None:
        """Reload the files if they changed."""
        if self._files() != self._stamp:
            self.reload()

    def _read(self) -> SSLContext:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.minimum_version = TLSVersion.TLSv1_2
        # Of TLS 1.2 only what TLS 1.3 has too: forward secrecy, and authenticated encryption. Python's own list still
        # has CBC, whose padding was attacked repeatedly.
        context.set_ciphers(_CIPHERS)
        # TLS 1.2 lets a client renegotiate again and again, which costs the server more than the client.
        context.options |= OP_NO_RENEGOTIATION
        try:
            # Without a password callback OpenSSL would prompt at the terminal, and block.
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            message = f"the certificate {self.certificate} with the key {self.key} cannot be used: {_why(error)}"
            raise ValueError(message) from None
        return context

    def _show_current(self, handshake: SSLObject, _: str | None, __: SSLContext) -> None:
        handshake.context = self._current

    def _files(self) -> _Stamp:
        """What distinguishes a file from its predecessor; zero for a file that is missing for a moment."""
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
        return "they do not match" if is_mismatch else "one of them is not a valid PEM file"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _no_password() -> NoReturn:
    raise ValueError("the key is encrypted with a password: store it without one, readable only by the server's user")
