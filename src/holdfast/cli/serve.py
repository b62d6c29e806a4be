"""`holdfast serve game.py`: run a game until it is told to stop."""

import errno
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource
from rich.console import Console

import holdfast
from holdfast import HttpApi, Server, Storage, Tls
from holdfast.cli.announcement import FORGETFUL, Keeping, announce
from holdfast.cli.limit_option import limit_option
from holdfast.cli.listen_options import EXPOSED_ADVICE, ListenOptions, listen_options, tls_for_http
from holdfast.cli.loading import Game, load
from holdfast.cli.log_options import LOG_OPTIONS, log_options
from holdfast.cli.reload.supervised import Supervised
from holdfast.cli.reload.supervisor import PortOption, supervise
from holdfast.cli.removed import removed_options
from holdfast.cli.secrets import API_KEY_VARIABLE, SECRET_VARIABLE, read_api_keys, read_secret
from holdfast.cli.stores import store_failed
from holdfast.core.limits import Limits
from holdfast.http.limits import DEFAULT_HOST, DEFAULT_PORT
from holdfast.http.static import PLAY
from holdfast.schemas.events import NodeDraining
from holdfast.server.durability.recovery import Pace
from holdfast.stores.port import StoreError
from holdfast.transports.listeners import Exposed

_PORT = click.IntRange(0, 65535)


@click.command()
@click.argument("game")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen; 0.0.0.0 is everywhere."
)
@click.option(
    "--port", type=_PORT, default=7777, show_default=True, metavar="PORT", help="For WebSocket; 0 is any free one."
)
@click.option(
    "--tcp-port", type=_PORT, default=7779, show_default=True, metavar="PORT", help="For TCP; 0 is any free one."
)
@removed_options
@click.option(
    "--http-port",
    type=_PORT,
    default=DEFAULT_PORT,
    show_default=True,
    metavar="PORT",
    help="For the HTTP API; 0 is any free one.",
)
@click.option(
    "--http-host",
    default=DEFAULT_HOST,
    show_default=True,
    metavar="ADDRESS",
    help=f"Where the HTTP API listens; anywhere but here it needs a key in ${API_KEY_VARIABLE}.",
)
@click.option("--no-http", is_flag=True, help="Open no HTTP API.")
@click.option("--name", default="", help="What this node is called, for the destinations of queues.")
@click.option("--region", default="local", show_default=True, help="Where this node stands, for their latencies.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a session without a seat outlives its connection; in a room, the room's grace_s counts.",
)
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path),
    help=(
        f"Holds the key that proves who a guest is. Without it ${SECRET_VARIABLE} is used, else the one in the store,"
        " else a new key."
    ),
)
@click.option(
    "--store",
    metavar="URL",
    help=(
        "Where durable rooms are kept, so that they outlive this process: sqlite:game.db is a file, which is made if it"
        " does not exist."
    ),
)
@click.option(
    "--recovery",
    type=click.Choice(get_args(Pace)),
    default="eager",
    show_default=True,
    help="Rooms that were kept come back before the server listens, or each when it is asked for.",
)
@click.option(
    "--takeover",
    is_flag=True,
    help="Start though another server is on the --store, and take its durable rooms over. Without it, there is one.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=Limits().drain_s,
    show_default=True,
    metavar="SECONDS",
    help="How long after SIGTERM rooms that are not durable may go on; Ctrl-C gives them no time.",
)
@click.option(
    "--web",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help=f"Show the game's own pages at the HTTP port under {PLAY}, to this machine only: for development.",
)
@click.option(
    "--reload",
    is_flag=True,
    help=(
        "Start again when a .py file in the game's folder changes. Durable rooms go on and players come back; without a"
        " --store they are kept until this command ends."
    ),
)
@click.option("--supervised", type=click.Path(path_type=Path), hidden=True)
@limit_option
@listen_options
@log_options
@click.pass_context
def serve(  # noqa: PLR0913 - one parameter for each option
    context: click.Context,
    game: str,
    *,
    host: str,
    port: int,
    tcp_port: int,
    http_port: int,
    http_host: str,
    no_http: bool,
    name: str,
    region: str,
    grace: float,
    secret_file: Path | None,
    store: str | None,
    recovery: Pace,
    takeover: bool,
    drain: float,
    web: Path | None,
    reload: bool,
    supervised: Path | None,
    limits: Limits,
    listening: ListenOptions,
    verbose: int,
) -> None:
    """Run a game until Ctrl-C.

    GAME is a Python file (game.py) or module (games.arena). The Room classes that it defines are served, or those in
    its list `rooms`; placements can be started in the queues of its list `queues`. If it has a holdfast.Server named
    `server`, that is run as it is.

    Rooms whose `durability` is "checkpoint" or "commit" need a --store. The exit code is 74 when the store cannot be
    trusted any more, as after a failed fsync: start again, and what was saved comes back.
    """
    if reload:
        websocket, tcp = PortOption("--port", host, port), PortOption("--tcp-port", host, tcp_port)
        context.exit(supervise(game, [websocket, tcp, PortOption("--http-port", http_host, http_port)]))
    parent = None if supervised is None else Supervised(supervised)
    if parent is not None:
        parent.obey()
    loaded = load(game, full_traceback=verbose > 0)
    if loaded.server is not None:
        _refuse_options(context, game)
        _run(loaded.server, loaded, Keeping(store="", supervised=parent))
        return
    if parent is not None:
        store = store or parent.store
    if web is not None and no_http:
        raise click.UsageError("--web needs the HTTP port: leave --no-http away.")
    if store is None and context.get_parameter_source("recovery") is ParameterSource.COMMANDLINE:
        raise click.ClickException("There is nothing to recover without a --store, as in --store sqlite:game.db.")
    secret = read_secret(secret_file)
    if context.get_parameter_source("drain") is ParameterSource.COMMANDLINE:
        limits = replace(limits, drain_s=drain)
    if listening.full_share:
        limits = replace(limits, full_share=(*limits.full_share, *listening.full_share))
    try:
        server = Server(
            loaded.rooms,
            listen=listening.listen(host, port, tcp_port),
            grace_s=grace,
            secret=secret,
            store=None if store is None else Storage(store, recovery=recovery, takeover=takeover),
            name=name,
            region=region,
            queues=loaded.queues,
            limits=limits,
            http=None if no_http else _api(http_host, http_port, tls_for_http(listening.tls, http_host), web),
        )
    except Exposed as error:
        raise click.ClickException(f"{game}: {error}. {EXPOSED_ADVICE}") from None
    except ValueError as error:
        raise click.ClickException(f"{game}: {error}") from None
    forgets_guests = secret is None and store in {None, FORGETFUL}
    _run(server, loaded, Keeping(store or "", recovery == "lazy", forgets_guests, parent))


def _run(server: Server, game: Game, keeping: Keeping) -> None:
    console = Console(highlight=False)
    is_open = False

    def ready(server: Server) -> None:
        nonlocal is_open
        is_open = True
        announce(console, server, game, keeping)

    def draining(event: NodeDraining) -> None:
        rooms = len(server.node.drain.waits_for)
        if rooms:
            what = "one room" if rooms == 1 else f"{rooms} rooms"
            console.print(f"Draining: {what} may go on for {event.deadline_s:g} s. A second signal ends it at once.")

    server.on(NodeDraining, draining)
    try:
        holdfast.run(server, ready=ready)
    except (OSError, ValueError, StoreError) as error:
        if is_open:
            raise
        raise _false_start(error, game, keeping) from None
    if keeping.supervised is None:
        console.print("Stopped.")


def _false_start(error: OSError | ValueError | StoreError, game: Game, keeping: Keeping) -> click.ClickException:
    match error:
        case StoreError():
            return store_failed(keeping.store or f"of {game.name}", error)
        case OSError():
            return click.ClickException(_not_listening(error, game))
        case _:
            return click.ClickException(f"{game.name}: {error}")


def _refuse_options(context: click.Context, game: str) -> None:
    """A server that the game made has its settings already."""
    for parameter in context.command.params:
        is_setting = isinstance(parameter, click.Option) and parameter.name not in {*LOG_OPTIONS, "supervised"}
        if is_setting and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise click.ClickException(f"{game} makes its own server: set what {parameter.opts[0]} asks for there.")


def _api(host: str, port: int, tls: Tls | None, web: Path | None) -> HttpApi:
    keys = read_api_keys()
    try:
        return HttpApi(host, port, keys=keys, ssl=None if tls is None else tls.context, web=web)
    except ValueError as error:
        advice = f"set ${API_KEY_VARIABLE}" if web is None else "leave --web or --http-host away"
        raise click.ClickException(f"{error} On the command line: {advice}.") from None


def _not_listening(error: OSError, game: Game) -> str:
    """Which address could not be opened, and what to do about it."""
    found = re.search(r"\('(?P<host>[^']*)', (?P<port>\d+)", str(error))
    if found is None or error.errno is None:
        return f"Cannot listen: {error.strerror}. Is --host an address of this machine?"
    address = f"{found['host']}:{found['port']}"
    where = "with --port, --tcp-port or --http-port" if game.server is None else f"in {game.name}"
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use, perhaps by another server: stop that one, or choose another port {where}."
    if error.errno == errno.EACCES:
        return f"{address} may not be opened by this user: choose a port above 1023 {where}."
    return f"Cannot listen at {address}: {os.strerror(error.errno)}."
