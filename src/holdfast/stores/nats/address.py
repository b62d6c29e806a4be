"""The address of a store on NATS: "nats://127.0.0.1:4222/arena", or several servers of one cluster, with commas.

After the servers comes the name of the store ("holdfast" if there is none): one NATS keeps the stores of many games.
After a question mark come the options, as in "?replicas=3&credentials=game.creds". User and password, or a token, stand
before one of the servers and are used for all, also for those that NATS names by itself later. In them a character that
means something in an address is written as % and two hexadecimal digits.
"""

import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from holdfast.core.addresses import is_loopback

SCHEMES = ("nats", "tls")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEFAULT_NAME = "holdfast"
_REPLICAS = (1, 3, 5)


class NatsAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the NATS servers are, how to get in, and which store it is."""

    servers: tuple[str, ...]
    """Each with its scheme, and without the login."""
    name: str
    user: str = ""
    password: str = ""
    token: str = ""
    """Instead of user and password."""
    replicas: int | None = None
    """On how many servers each record is; None: 3 in a cluster of NATS servers, otherwise 1."""
    monitors: tuple[str, ...] = ()
    """The HTTP addresses of the servers' monitoring, which says how they save."""
    credentials: str = ""
    """A file of a user's credentials (.creds)."""
    ca: str = ""
    """A file with the certificate of the authority that signed the servers' certificates."""
    certificate: str = ""
    """A file with this server's own certificate, if the NATS servers ask for one; `key` is its key."""
    key: str = ""
    is_insecure: bool = False
    """A cluster may use NATS servers on other machines without encryption, and without a login."""

    @property
    def is_encrypted(self) -> bool:
        return self.servers[0].startswith("tls:")

    @property
    def is_local(self) -> bool:
        """Whether nothing leaves this machine."""
        return all(is_loopback(urlsplit(server).hostname or "") for server in self.servers)

    def __str__(self) -> str:
        """The address without its secrets."""
        places = (server.partition("://")[2] for server in self.servers)
        return f"{self.servers[0].partition(':')[0]}://{','.join(places)}/{self.name}"


def parse_address(url: str) -> NatsAddress:
    """The address in a setting; `ValueError` says what is wrong with it."""
    where, _, query = url.partition("?")
    scheme = where.partition("://")[0]
    servers, names, logins = [], set(), set()
    for item in where.split(","):
        server = _server(item if "://" in item else f"{scheme}://{item}", url)
        if server.scheme not in SCHEMES or server.scheme != scheme:
            raise ValueError(f"{_shown(url)}: each server begins with {scheme}://, or with nothing")
        names |= {server.path.strip("/")} - {""}
        login, _, place = server.netloc.rpartition("@")
        logins |= {login} - {""}
        servers.append(f"{scheme}://{place}")
    if len(names) > 1 or not all(map(_NAME.fullmatch, names)):
        raise ValueError(
            f"{_shown(url)}: the name of a store is one word of letters, digits, - and _, after the servers"
            f"{_spelling(url)}"
        )
    if len(logins) > 1:
        raise ValueError(f"{_shown(url)}: servers of one cluster have the same user and password; write them once")
    user, colon, password = next(iter(logins), "").partition(":")
    address = NatsAddress(
        servers=tuple(servers),
        name=next(iter(names), _DEFAULT_NAME),
        user=unquote(user) if colon else "",
        password=unquote(password),
        token="" if colon else unquote(user),
    )
    return _with_options(url, address, query)


def _server(text: str, url: str) -> SplitResult:
    """One of the servers."""
    with suppress(ValueError):  # of a port, or an address in brackets
        server = urlsplit(text)
        if server.hostname and server.port != 0 and not server.fragment and server.netloc.count("@") <= 1:
            return server
    raise ValueError(f"{_shown(url)}: a store on NATS is nats://host:port, as in nats://127.0.0.1:4222{_spelling(url)}")


def _with_options(url: str, address: NatsAddress, query: str) -> NatsAddress:
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        replicas = int(options.pop("replicas")) if "replicas" in options else None
    except ValueError:
        raise ValueError(
            f"{_shown(url)}: options are written as ?replicas=3&credentials=game.creds{_spelling(url)}"
        ) from None
    if replicas not in {None, *_REPLICAS}:
        raise ValueError(f"{_shown(url)}: replicas must be 1, 3 or 5")
    monitors = tuple(filter(None, options.pop("monitor", "").split(",")))
    if any(urlsplit(each).scheme not in {"http", "https"} for each in monitors):
        raise ValueError(f"{_shown(url)}: monitor is the HTTP address of a NATS server, as in http://127.0.0.1:8222")
    insecure = options.pop("insecure", "")
    if insecure not in {"", "yes"}:
        raise ValueError(
            f"{_shown(url)}: insecure=yes is for a network that nobody else can reach; otherwise remove it"
        )
    files = {name: options.pop(name, "") for name in ("credentials", "ca", "certificate", "key")}
    if options:
        raise ValueError(
            f"{_shown(url)}: unknown option {min(options)}; there are replicas, monitor, insecure,"
            f" {', '.join(files)}"
            f"{_spelling(url)}"
        )
    for name, file in files.items():
        if file and not Path(file).is_file():
            raise ValueError(f"{_shown(url)}: {name}: there is no file {file}")
    if files["key"] and not files["certificate"]:
        raise ValueError(f"{_shown(url)}: key belongs to a certificate: add certificate=FILE")
    if (files["ca"] or files["certificate"]) and not address.is_encrypted:
        raise ValueError(f"{_shown(url)}: certificates are for an encrypted link: write tls:// instead of nats://")
    if files["credentials"] and (address.user or address.token):
        raise ValueError(f"{_shown(url)}: there are two logins: remove the one before the server, or credentials=")
    return msgspec.structs.replace(
        address, replicas=replicas, monitors=monitors, is_insecure=insecure == "yes", **files
    )


def _spelling(url: str) -> str:
    """What to try if a password was taken for another part of the address."""
    return (
        "; in a user or a password write / as %2F, @ as %40, ? as %3F, # as %23, a comma as %2C" if "@" in url else ""
    )


def _shown(url: str) -> str:
    """The URL without what may be a secret: whatever stands before the last @ may be one, and so may an option."""
    scheme, _, rest = url.partition("://")
    _, at, after = rest.rpartition("@")
    return f"{scheme}://{'…@' if at else ''}{after.partition('?')[0]}"
