"""The options about what a server listens on and who may connect, and what `holdfast serve` announces of it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from holdfast import Server, Tcp, Tls, WebSocket
from holdfast.core.addresses import is_loopback
from holdfast.transports.links import peer_name
from holdfast.transports.listeners import Listen

_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """The options."""

    tls: Tls | None
    origins: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    proxy_protocol: bool
    full_share: tuple[str, ...]
    insecure: bool
    compression: bool

    def listen(self, host: str, port: int, tcp_port: int) -> list[Listen]:
        """What to listen on; `ValueError` if the options do not fit together."""
        shared: dict[str, Any] = {
            "host": host,
            "tls": self.tls,
            "trusted_proxies": self.trusted_proxies,
            "proxy_protocol": self.proxy_protocol,
            "insecure": self.insecure,
        }
        websocket = WebSocket(port=port, origins=self.origins, compression=self.compression, **shared)
        return [websocket, Tcp(port=tcp_port, **shared)]


def listen_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add them to a command, which gets them as `listening`."""

    @functools.wraps(command)
    def with_options(
        *args: Any,
        tls_cert: Path | None,
        tls_key: Path | None,
        origin: tuple[str, ...],
        trusted_proxy: tuple[str, ...],
        proxy_protocol: bool,
        full_share: tuple[str, ...],
        insecure: bool,
        compression: bool,
        **arguments: Any,
    ) -> None:
        tls = _tls(tls_cert, tls_key)
        options = ListenOptions(tls, origin, trusted_proxy, proxy_protocol, full_share, insecure, compression)
        command(*args, listening=options, **arguments)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options


_OPTIONS = (
    click.option(
        "--compression",
        is_flag=True,
        help="Compress the links of browsers, and of others that offer permessage-deflate.",
    ),
    click.option(
        "--tls-cert",
        type=_FILE,
        metavar="FILE",
        help=(
            "Speak wss:// and tcps:// with this certificate, and those that vouch for it; so does an HTTP API that"
            " listens elsewhere than here. It is read again when it changes, and at SIGHUP."
        ),
    ),
    click.option("--tls-key", type=_FILE, metavar="FILE", help="The key of the certificate."),
    click.option(
        "--origin",
        multiple=True,
        metavar="ORIGIN",
        help=(
            "A site whose pages may connect, as in https://game.example or https://*.game.example; may be given several"
            " times. Without any, all sites' pages may; programs that are no browsers always may."
        ),
    ),
    click.option(
        "--trusted-proxy",
        multiple=True,
        metavar="ADDRESS",
        help=(
            "A proxy in front, or a network of them (10.0.0.0/8), that is believed about who its clients are; may be"
            " given several times."
        ),
    ),
    click.option(
        "--proxy-protocol", is_flag=True, help="The trusted proxies say who their clients are in the PROXY protocol."
    ),
    click.option(
        "--full-share",
        multiple=True,
        metavar="NETWORK",
        help=(
            "An address or a network (198.51.100.0/24) whose players may hold all of the server's connections, sessions"
            " and rooms, not only the share of one address (--limit address_share=0.25): a tournament's hall, a load"
            " test; may be given several times."
        ),
    ),
    click.option(
        "--insecure",
        is_flag=True,
        help="Listen elsewhere than at 127.0.0.1 without encryption: for a LAN, or the network of containers.",
    ),
)

EXPOSED_ADVICE = (
    "On the command line: --tls-cert and --tls-key; --host 127.0.0.1 behind a proxy, or --trusted-proxy; or --insecure."
)
"""What to do when a server would not be safe."""


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise click.UsageError("A certificate needs its key: give both --tls-cert and --tls-key.")
    try:
        return Tls(certificate, key)
    except ValueError as error:
        raise click.ClickException(f"{str(error)[0].upper()}{str(error)[1:]}.") from None


def listen_facts(server: Server) -> list[tuple[str, str]]:
    """Where it listens, and who may connect."""
    listeners = server.listeners
    facts = list(server.urls.items())
    facts += [("tls", f"{tls.certificate}, read again when it changes") for tls in listeners.certificates]
    if any(each.insecure and each.is_readable for each in listeners.listen):
        facts.append(("", "insecure: what is not encrypted can be read and changed on its way"))
    if listeners.origins:
        facts.append(("origins", ", ".join(listeners.origins)))
    elif any(isinstance(each, WebSocket) and each.is_public for each in listeners.listen):
        facts.append(("origins", "any: pages of all sites may connect; name those of your game with --origin"))
    for names, is_header in dict.fromkeys((tuple(e.trusted_proxies), e.proxy_protocol) for e in listeners.listen):
        if names:
            facts.append(("proxies", ", ".join(names) + (", with the PROXY protocol" if is_header else "")))
    if server.limits.full_share:
        facts.append(("shares", f"of every pool all for {', '.join(server.limits.full_share)}"))
    if server.http is not None:
        address = f"{server.http.scheme}://{peer_name(server.addresses['http'])}"
        facts += [("http", f"{address}/docs"), ("dashboard", f"{address}/")]
    return facts


def tls_for_http(tls: Tls | None, host: str) -> Tls | None:
    """At home the API stays as it is: its certificate is not for 127.0.0.1, and nobody is on the way."""
    return None if is_loopback(host) else tls
