"""Certificates for tests: made up for each run, and written where a server reads them."""

import ssl
from pathlib import Path

import trustme


class Certificates:
    """An authority, and the files of the certificate that it issued last."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.certificate = folder / "cert.pem"
        self.key = folder / "key.pem"
        self.authority = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.authority))
        self.renew()

    def renew(self) -> None:
        """Write another certificate, as a tool that renews them does."""
        issued = self._authority.issue_cert("localhost", "127.0.0.1", "::1")
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    @property
    def trust(self) -> ssl.SSLContext:
        """What a client needs to believe them."""
        return ssl.create_default_context(cadata=self._authority.cert_pem.bytes().decode())

    def shown(self) -> bytes:
        """The certificate in the file, as a client gets to see it."""
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text().partition("-----END CERTIFICATE-----")[0] + _END)


_END = "-----END CERTIFICATE-----\n"
