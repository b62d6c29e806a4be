"""The options of `holdfast serve`, in groups, and the secrets that it reads from files and the environment."""

import functools
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, get_args

import click

from holdfast import Enet, Tcp, Tls, Udp, WebSocket
from holdfast.core.limits import REMOVED, RENAMED, Limits, RoleLimits
from holdfast.core.tokens import TOKEN_BYTES
from holdfast.http.api import ApiKey, Scope
from holdfast.logs.output import FORMATS, Format, set_up
from holdfast.stores.port import Broken, StoreError
from holdfast.transports.listeners import Listen

Command = Callable[..., None]
Option = Callable[[Any], Any]


def port_option(name: str, default: int | None, about: str) -> Option:
    """An option for a port to listen on."""
    kind = click.IntRange(0, 65_535)
    return click.option(name, type=kind, default=default, show_default=default is not None, metavar="PORT", help=about)


def address_option(name: str, default: str, about: str) -> Option:
    """An option for an address to listen on."""
    return click.option(name, default=default, show_default=True, metavar="ADDRESS", help=about)


def seconds_option(name: str, default: float, about: str) -> Option:
    """An option for a duration."""
    kind = click.FloatRange(0)
    return click.option(name, type=kind, default=default, show_default=True, metavar="SECONDS", help=about)


def flag_option(name: str, about: str) -> Option:
    """An option without a value."""
    return click.option(name, is_flag=True, help=about)


def _file(name: str, about: str) -> Option:
    return click.option(name, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=about)


def _repeatable(name: str, metavar: str, about: str) -> Option:
    return click.option(name, multiple=True, metavar=metavar, help=about)


def _with_options(command: Command, options: Sequence[Option]) -> Command:
    # A decorator that is applied last is listed first in the help.
    for option in reversed(options):
        command = option(command)
    return command


# What to listen on


@dataclass(frozen=True)
class ListenOptions:
    """What to listen on and who may connect: a field for each option."""

    host: str
    port: int
    tcp_port: int
    enet_port: int | None
    udp_port: int | None
    compression: bool
    tls_cert: Path | None
    tls_key: Path | None
    origin: tuple[str, ...]
    trusted_proxy: tuple[str, ...]
    proxy_protocol: bool
    full_share: tuple[str, ...]
    insecure: bool

    def listen(self, sockets: Mapping[str, Sequence[socket.socket]] | None = None) -> list[Listen]:
        """The listeners; `ValueError` if the options do not fit together. `sockets` listen already, by transport."""
        given = sockets or {}
        shared: dict[str, Any] = {
            "host": self.host,
            "tls": self.tls,
            "trusted_proxies": self.trusted_proxy,
            "proxy_protocol": self.proxy_protocol,
            "insecure": self.insecure,
        }
        websocket = WebSocket(
            port=self.port,
            origins=self.origin,
            compression=self.compression,
            sockets=given.get(WebSocket.transport, ()),
            **shared,
        )
        ports: list[Listen] = [websocket, Tcp(port=self.tcp_port, sockets=given.get(Tcp.transport, ()), **shared)]
        if self.enet_port is not None:
            sockets_of_enet = given.get(Enet.transport, ())
            ports.append(Enet(host=self.host, port=self.enet_port, insecure=self.insecure, sockets=sockets_of_enet))
        if self.udp_port is not None:
            ports.append(Udp(host=self.host, port=self.udp_port, sockets=given.get(Udp.transport, ())))
        return ports

    @property
    def ports(self) -> dict[str, tuple[str, int]]:
        """What is listened on, by option."""
        ports = {
            "--port": self.port,
            "--tcp-port": self.tcp_port,
            "--enet-port": self.enet_port,
            "--udp-port": self.udp_port,
        }
        return {option: (self.host, port) for option, port in ports.items() if port is not None}

    @cached_property
    def tls(self) -> Tls | None:
        """The certificate, which all listeners share."""
        if self.tls_cert is None and self.tls_key is None:
            return None
        if self.tls_cert is None or self.tls_key is None:
            raise click.UsageError("A certificate needs its key: give both --tls-cert and --tls-key.")
        try:
            return Tls(self.tls_cert, self.tls_key)
        except ValueError as error:
            raise click.ClickException(f"{str(error)[0].upper()}{str(error)[1:]}.") from None


_LISTEN = (
    address_option("--host", "127.0.0.1", "The address to listen on; 0.0.0.0 means all interfaces."),
    port_option("--port", 7777, "The WebSocket port; 0 picks a free one."),
    port_option("--tcp-port", 7779, "The TCP port; 0 picks a free one."),
    port_option(
        *("--enet-port", None),
        "Listen for ENet over UDP, too: 7780 is usual, 0 picks a free port. It is not encrypted: on a public address it"
        " needs --insecure.",
    ),
    port_option(
        *("--udp-port", None),
        "Carry unreliable messages of WebSocket and TCP sessions over UDP: 7781 is usual, 0 picks a free port. As safe"
        " as the session itself.",
    ),
    flag_option(
        "--compression", "Compress WebSocket connections to clients that offer permessage-deflate, as browsers do."
    ),
    _file(
        "--tls-cert",
        "Serve wss:// and tcps:// with this certificate chain, and the HTTP API too unless it listens on loopback. The"
        " file is read again when it changes and on SIGHUP.",
    ),
    _file("--tls-key", "The private key of the certificate."),
    _repeatable(
        *("--origin", "ORIGIN"),
        "Accept browsers only from this site, as in https://game.example or https://*.game.example; repeatable. By"
        " default pages of all sites may connect. Clients outside browsers are not affected.",
    ),
    _repeatable(
        *("--trusted-proxy", "ADDRESS"),
        "Take client addresses from this proxy or network of proxies (10.0.0.0/8); repeatable.",
    ),
    flag_option("--proxy-protocol", "The trusted proxies send client addresses with the PROXY protocol."),
    _repeatable(
        *("--full-share", "NETWORK"),
        "Exempt an address or a network (198.51.100.0/24) from the limit per address (--limit address_share=0.25): its"
        " players may use all of the server's connections, sessions and rooms. For a tournament venue or a load test;"
        " repeatable.",
    ),
    flag_option("--insecure", "Allow unencrypted connections from other machines: for a LAN or a container network."),
)


def listen_options(command: Command) -> Command:
    """Add the options of `ListenOptions` to a command, which gets them as `listening`."""

    @functools.wraps(command)
    def with_options(*args: Any, **arguments: Any) -> None:
        options = ListenOptions(**{field.name: arguments.pop(field.name) for field in fields(ListenOptions)})
        command(*args, listening=options, **arguments)

    return _with_options(with_options, _LISTEN)


EXPOSED_ADVICE = (
    "On the command line: --tls-cert and --tls-key; --host 127.0.0.1 behind a proxy, or --trusted-proxy; or --insecure."
)
"""What to do when a server would accept unencrypted connections from other machines."""


# Limits


_LIMIT_TYPES = {limit.name: limit.type for limit in fields(Limits) if limit.name != "by_role"}


def _limits(_: click.Context, parameter: click.Parameter, assignments: Sequence[str]) -> Limits:
    """The default limits, with the given ones changed."""
    everybody: dict[str, Any] = {}
    by_role: dict[str, dict[str, Any]] = {}
    try:
        for text in assignments:
            words, equals, value = text.partition("=")
            role, dot, name = words.rpartition(".")
            limit, number = _assignment(f"{name}{equals}{value}")
            if not dot:
                everybody[limit] = number
            elif limit in RoleLimits.__dataclass_fields__ and role.strip():
                by_role.setdefault(role.strip(), {})[limit] = number
            else:
                known = ", ".join(RoleLimits.__dataclass_fields__)
                raise ValueError(f"{words.strip()} cannot be set for a role, as in gm.messages_per_s=500; use {known}")
        of_roles = {role: RoleLimits(**limits) for role, limits in by_role.items()}
        return replace(Limits(), **everybody, by_role=of_roles)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    name, value = name.strip().replace("-", "_"), value.strip()
    if name in RENAMED:
        raise ValueError(f"the limit {name} is now {RENAMED[name]}")
    if name in REMOVED:
        raise ValueError(f"the limit {name} was removed: {REMOVED[name]}")
    if name == "by_role":
        raise ValueError("the limits of a role are set one by one, as in gm.messages_per_s=500")
    if name not in _LIMIT_TYPES:
        near = get_close_matches(name, _LIMIT_TYPES, n=1)
        advice = f"did you mean {near[0]}?" if near else "docs/guide/limits.md lists all of them."
        raise ValueError(f"there is no limit {name!r}: {advice}")
    example = f"as in {name}={getattr(Limits(), name)}"
    if not equals or not value:
        raise ValueError(f"{name} needs a value, {example}")
    kind = _LIMIT_TYPES[name]
    if kind == tuple[str, ...]:
        return name, tuple(each.strip() for each in value.split(","))
    if choices := get_args(kind):
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
        return name, value
    number, what = (int, "a whole number") if kind is int else (float, "a number")
    try:
        return name, number(value.replace("_", ""))
    except ValueError:
        raise ValueError(f"{name} must be {what}, {example}; got {value!r}") from None


limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_limits,
    help="Change a limit, as in --limit messages_per_s=500, or for a role, as in --limit gm.messages_per_s=500;"
    " repeatable.",
)


# Logs


LOG_OPTIONS = frozenset({"verbose", "log_format", "log_no_addresses", "packet_log"})
"""The parameters that `log_options` adds; they also apply to a server that the game made."""

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


_LOG = (
    click.option(
        "-v", "--verbose", count=True, help="Log every event, not only problems; -vv logs debug messages too."
    ),
    click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        envvar="HOLDFAST_LOG_FORMAT",
        default="console",
        show_default=True,
        help="Log to stderr as text, or as one JSON object per line; also $HOLDFAST_LOG_FORMAT.",
    ),
    flag_option("--log-no-addresses", "Do not log players' addresses."),
    _file("--packet-log", "Write what `holdfast packets on` records to this file instead of the log."),
)


def log_options(command: Command) -> Command:
    """Add the log options to a command, and set up the log before it is called; of them it gets `verbose`."""

    @functools.wraps(command)
    def with_log(
        *args: Any, log_format: Format, log_no_addresses: bool, packet_log: Path | None, verbose: int, **arguments: Any
    ) -> None:
        level = _LEVELS[min(verbose, len(_LEVELS) - 1)]
        # Workers share one stream.
        node = worker.name if (worker := arguments.get("worker")) is not None else ""
        try:
            set_up(level, log_format, packet_file=packet_log, with_addresses=not log_no_addresses, node=node)
        except OSError as error:
            raise click.ClickException(f"The packet log {packet_log} cannot be written: {error.strerror}.") from None
        command(*args, verbose=verbose, **arguments)

    return _with_options(with_log, _LOG)


# Secrets: options would show them to everybody who can list processes.


SECRET_VARIABLE = "HOLDFAST_SECRET"  # noqa: S105 - where it is, not what it is
API_KEY_VARIABLE = "HOLDFAST_API_KEY"
CLUSTER_VARIABLE = "HOLDFAST_CLUSTER"
_SECRET_RECIPE = 'python -c "import secrets; print(secrets.token_hex())"'  # noqa: S105 - how to make one


def read_secret(file: Path | None) -> bytes | None:
    """The key for guest credentials, from the file or else from the environment."""
    if file is not None:
        try:
            secret = file.read_bytes().strip()
        except OSError as error:
            raise click.ClickException(f"The secret file {file} cannot be read: {error.strerror}.") from None
        where = str(file)
    else:
        secret = os.environ.get(SECRET_VARIABLE, "").strip().encode()
        where = f"${SECRET_VARIABLE}"
        if not secret:
            return None
    if len(secret) < TOKEN_BYTES:
        raise click.ClickException(
            f"The secret in {where} has {len(secret)} bytes and needs {TOKEN_BYTES}; make one with: {_SECRET_RECIPE}"
        )
    return secret


def read_api_keys() -> list[ApiKey]:
    """The admin key of the HTTP API, if the environment has one."""
    key = os.environ.get(API_KEY_VARIABLE, "").strip()
    try:
        return [ApiKey(key, [Scope.ADMIN])] if key else []
    except ValueError as error:
        raise click.ClickException(f"${API_KEY_VARIABLE}: {error}") from None


# Stores


class StoreBroken(click.ClickException):
    """The store cannot be trusted. The exit code is that of a server whose store breaks while it runs."""

    exit_code = 74


def store_failed(url: str, error: StoreError) -> click.ClickException:
    """The error for a store that cannot be opened or used."""
    words = f"The store {url}: {error}."
    if isinstance(error, Broken):
        return StoreBroken(f"{words} If the file is not a store, use another one; if it is, restore it from a backup.")
    return click.ClickException(words)


# Removed commands and options


_INSTEAD = "encrypt TCP with TLS: holdfast serve --tls-cert FILE --tls-key FILE, and connect to tcps://host:port"


@click.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1)
def key(arguments: tuple[str, ...]) -> NoReturn:
    """Removed: says what to use instead of `holdfast key`."""
    raise click.UsageError(f"`holdfast key` was removed; {_INSTEAD}.")


def removed_options(command: Command) -> Command:
    """Let a command reject --tcp-key and --tcp-plain with what to use instead."""

    def reject(_: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(f"{parameter.opts[0]} was removed; {_INSTEAD}.")

    hidden: dict[str, Any] = {"hidden": True, "expose_value": False, "callback": reject}
    key, plain = click.option("--tcp-key", multiple=True, **hidden), click.option("--tcp-plain", is_flag=True, **hidden)
    return key(plain(command))
