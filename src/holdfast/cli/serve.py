"""`holdfast serve game.py`: run a game until it is told to stop."""

import errno
import os
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource
from rich.console import Console

import holdfast
from holdfast import HttpApi, Server, Storage, Tls, Udp, WebSocket
from holdfast.cli.loading import Game, load
from holdfast.cli.options import (
    API_KEY_VARIABLE,
    CLUSTER_VARIABLE,
    EXPOSED_ADVICE,
    LOG_OPTIONS,
    SECRET_VARIABLE,
    ListenOptions,
    address_option,
    flag_option,
    limit_option,
    listen_options,
    log_options,
    port_option,
    read_api_keys,
    read_secret,
    removed_options,
    seconds_option,
    store_failed,
)
from holdfast.cli.reload import Supervised, supervise
from holdfast.cli.showing import counted, show_facts
from holdfast.cli.workers.command import WorkerOptions, serve_with_workers, worker_count
from holdfast.cli.workers.worker import Assignment, WorkerLine
from holdfast.core.addresses import is_loopback
from holdfast.core.limits import Limits
from holdfast.http.api import DEFAULT_HOST, DEFAULT_PORT
from holdfast.http.static import PLAY
from holdfast.schemas.events import NodeDraining
from holdfast.server.durability.recovery import Pace
from holdfast.stores.opening import shown_store
from holdfast.stores.port import StoreError
from holdfast.transports.links import peer_name
from holdfast.transports.listeners import Exposed

_IN_MEMORY = "memory:"
"""The store that keeps nothing when the process ends, not even the key for guest credentials."""

_PORT_OPTIONS = "with --port, --tcp-port, --enet-port, --udp-port or --http-port"

Fact = tuple[str, str]
"""A label, which is empty for a note on the line before, and its text."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What outlives the process; the store is "" if there is none, or the game's own."""

    store: str
    is_lazy: bool = False
    forgets_guests: bool = False
    supervised: Supervised | None = None
    worker: WorkerLine | None = None


@click.command()
@click.argument("game")
@listen_options
@removed_options
@port_option("--http-port", DEFAULT_PORT, "The port of the HTTP API; 0 picks a free one.")
@address_option(
    *("--http-host", DEFAULT_HOST),
    f"The address of the HTTP API; any but a loopback address needs a key in ${API_KEY_VARIABLE}.",
)
@flag_option("--no-http", "Do not start the HTTP API.")
@click.option("--name", default="", help="The name of this node, for the destinations of queues.")
@click.option("--region", default="local", show_default=True, help="The region of this node, for players' latencies.")
@seconds_option(
    *("--grace", 30.0),
    "How long a disconnected session without a seat is kept; in a room, the room's grace_s applies.",
)
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path),
    help=(
        f"The file with the key for guest credentials. Without it, ${SECRET_VARIABLE} is used, else the key in the"
        " store, else a new key."
    ),
)
@click.option(
    "--store",
    metavar="URL",
    help="Where durable rooms are saved, as in sqlite:game.db; the file is created if it does not exist. Or the address"
    " of a NATS server with JetStream, as in nats://127.0.0.1:4222.",
)
@click.option(
    "--cluster",
    metavar="URL",
    envvar=CLUSTER_VARIABLE,
    help="Make this server a node of a cluster, instead of --store: the addresses of its NATS servers and its name, as"
    f" in tls://10.0.0.1,10.0.0.2,10.0.0.3/arena; also ${CLUSTER_VARIABLE}, which other users cannot read.",
)
@click.option(
    "--advertise",
    metavar="URL",
    default="",
    help="The address at which clients reach this node of the cluster and no other, as in wss://node-a.example: clients"
    " of other nodes whose session is here come to it if they can.",
)
@click.option(
    "--workers",
    callback=worker_count,
    metavar="N",
    help="Serve with N processes on the same ports, or one for each core (auto); needs holdfast[workers], unless there"
    " is a --cluster for them.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder in which --workers save durable rooms; by default game.holdfast for game.py.",
)
@port_option(
    *("--worker-http-port", None),
    "With --workers: the first one also serves the HTTP API alone on this port, the second on the next one, and so on."
    " For /metrics, which are those of the worker that answers.",
)
@click.option(
    "--recovery",
    type=click.Choice(get_args(Pace)),
    default="eager",
    show_default=True,
    help="Recover saved rooms before the server listens (eager), or each when it is first requested (lazy).",
)
@flag_option(
    "--takeover",
    "If another server uses the --store, take over its durable rooms; by default this server does not start.",
)
@seconds_option(
    *("--drain", Limits().drain_s),
    "How long rooms that are not durable may go on after SIGTERM; Ctrl-C ends them at once.",
)
@click.option(
    "--web",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help=f"Serve the game's own pages on the HTTP port under {PLAY}, to this machine only: for development.",
)
@flag_option(
    "--reload",
    "Restart when a .py file in the game's folder changes. Durable rooms go on and players reconnect; without --store"
    " they are kept until this command ends.",
)
@click.option("--supervised", type=click.Path(path_type=Path), hidden=True)
@click.option("--worker", callback=lambda _c, _p, value: None if value is None else WorkerLine.of(value), hidden=True)
@limit_option
@log_options
@click.pass_context
def serve(  # noqa: PLR0913 - one parameter for each option
    context: click.Context,
    game: str,
    *,
    listening: ListenOptions,
    http_port: int,
    http_host: str,
    no_http: bool,
    name: str,
    region: str,
    grace: float,
    secret_file: Path | None,
    store: str | None,
    cluster: str | None,
    advertise: str,
    workers: int | None,
    data: Path | None,
    worker_http_port: int | None,
    recovery: Pace,
    takeover: bool,
    drain: float,
    web: Path | None,
    reload: bool,
    supervised: Path | None,
    worker: WorkerLine | None,
    limits: Limits,
    verbose: int,
) -> None:
    """Run a game until Ctrl-C.

    GAME is a Python file (game.py) or module (games.arena). All Room classes that it defines are served, or those in
    its list `rooms`; placements can be started in the queues of its list `queues`. If it defines a holdfast.Server
    named `server`, that server is run as it is.

    Rooms whose `durability` is "checkpoint" or "commit" need a --store, --workers or a --cluster. The exit code is 74
    if the store can no longer be trusted, for example after a failed fsync: start the server again to recover what was
    saved.
    """
    if reload:
        context.exit(supervise(game, listening.ports | {"--http-port": (http_host, http_port)}))
    # A worker's parent is another one.
    parent = None if supervised is None or worker is not None else Supervised(supervised)
    if parent is not None:
        parent.obey()
    _check_places(context, store=store, cluster=cluster, workers=workers, data=data)
    if context.get_parameter_source("drain") is ParameterSource.COMMANDLINE:
        limits = replace(limits, drain_s=drain)
    if listening.full_share:
        limits = replace(limits, full_share=(*limits.full_share, *listening.full_share))
    if workers is not None and worker is None:
        options = WorkerOptions(
            game=game,
            count=workers,
            data=data,
            temporary=None if parent is None else parent.folder / "rooms",
            cluster=cluster,
            name=name,
            listening=listening,
            http=None if no_http else (http_host, http_port),
            own_http_port=worker_http_port,
            limits=limits,
        )
        context.exit(_serve_with_workers(options))
    loaded = load(game, full_traceback=verbose > 0)
    if loaded.server is not None:
        if worker is not None:
            raise click.ClickException(
                f"{game} makes its own server, which is one process: --workers needs a file that defines Room classes."
            )
        _reject_options(context, game)
        _run(loaded.server, loaded, StoreInfo(store="", supervised=parent))
        return
    if parent is not None and cluster is None:
        store = store or parent.store
    if web is not None and no_http:
        raise click.UsageError("--web needs the HTTP port: remove --no-http.")
    secret = read_secret(secret_file)
    try:
        assignment = Assignment(cluster)
        if worker is not None:
            assignment = worker.loaded(limits, has_durable_rooms=_has_durable(loaded))
        server = Server(
            loaded.rooms,
            listen=listening.listen(assignment.sockets),
            grace_s=grace,
            secret=secret,
            store=None if store is None else Storage(store, recovery=recovery, takeover=takeover),
            cluster=assignment.cluster,
            advertise=advertise,
            name=name if worker is None else worker.name,
            region=region,
            queues=loaded.queues,
            check_name=loaded.check_name,
            limits=limits,
            http=None if no_http else _api(http_host, http_port, listening.tls, web, assignment.http),
        )
    except Exposed as error:
        raise click.ClickException(f"{game}: {error}. {EXPOSED_ADVICE}") from None
    except ValueError as error:
        raise click.ClickException(f"{game}: {error}") from None
    forgets_guests = secret is None and assignment.cluster is None and store in {None, _IN_MEMORY}
    store_info = StoreInfo(store or cluster or "", recovery == "lazy", forgets_guests, parent, worker)
    _run(server, loaded, store_info)


def _has_durable(game: Game) -> bool:
    return any(room.durability != "memory" for room in game.rooms)


def _check_places(
    context: click.Context, *, store: str | None, cluster: str | None, workers: int | None, data: Path | None
) -> None:
    """Whether the options agree on where rooms are saved."""
    if store is not None and cluster is not None:
        raise click.UsageError(
            "--store cannot be used with --cluster: a cluster keeps its rooms in the JetStream of its NATS servers,"
            " where every node finds them. Remove --store; to take its rooms along, see `holdfast store copy`."
        )
    if store is not None and workers is not None:
        raise click.UsageError(
            "--store cannot be used with --workers: the workers share a store on a NATS server that they bring along."
            " Remove --store, and name its folder with --data FOLDER; to take the rooms of a store along, see"
            " `holdfast store copy`."
        )
    if cluster is None and context.params["advertise"]:
        raise click.UsageError("--advertise is for a node of a cluster with other machines: add --cluster.")
    if data is not None and (workers is None or cluster is not None):
        instead = "use --store sqlite:game.db" if workers is None else "a --cluster keeps its rooms in its NATS servers"
        raise click.UsageError(f"--data is for --workers without a --cluster: {instead}.")
    for option in ("recovery", "takeover"):
        if store is None and context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            if cluster is None and workers is None:
                raise click.ClickException(f"--{option} needs a store: add one, as in --store sqlite:game.db.")
            raise click.ClickException(f"--{option} is for a --store: the nodes of a cluster take over by themselves.")


def _serve_with_workers(options: WorkerOptions) -> int:
    console = Console(highlight=False)
    try:
        code = serve_with_workers(options, console)
    except Exposed as error:
        raise click.ClickException(f"{options.game}: {error}. {EXPOSED_ADVICE}") from None
    except OSError as error:
        raise _listen_failed(error, _PORT_OPTIONS) from None
    except ValueError as error:
        raise click.ClickException(f"{options.game}: {error}") from None
    if options.temporary is None and code == 0:
        console.print("Stopped.")
    return code


def _run(server: Server, game: Game, store_info: StoreInfo) -> None:
    console = Console(highlight=False)
    is_open = False

    def ready(server: Server) -> None:
        nonlocal is_open
        is_open = True
        if store_info.worker is not None:
            store_info.worker.ready(server, list(_facts(server, game, store_info)))
        else:
            _announce(console, server, game, store_info)

    def draining(event: NodeDraining) -> None:
        rooms = len(server.parts.drain.waits_for)
        if rooms:
            what = counted(rooms, "room")
            who = "Draining" if store_info.worker is None else f"{store_info.worker.name} drains"
            console.print(f"{who}: {what} may go on for {event.deadline_s:g} s. Send a second signal to stop now.")

    server.on(NodeDraining, draining)
    try:
        holdfast.run(server, ready=ready)
    except (OSError, ValueError, StoreError) as error:
        if is_open:
            raise
        raise _start_failed(error, game, store_info) from None
    if store_info.supervised is None and store_info.worker is None:
        console.print("Stopped.")


def _start_failed(error: OSError | ValueError | StoreError, game: Game, store_info: StoreInfo) -> click.ClickException:
    """What went wrong, and what to do about it."""
    if isinstance(error, StoreError):
        return store_failed(shown_store(store_info.store) or f"of {game.name}", error)
    if not isinstance(error, OSError):
        return click.ClickException(f"{game.name}: {error}")
    return _listen_failed(error, _PORT_OPTIONS if game.server is None else f"in {game.name}")


def _listen_failed(error: OSError, where: str) -> click.ClickException:
    """`where` says how to choose another port."""
    found = re.search(r"\('(?P<host>[^']*)', (?P<port>\d+)", str(error))
    if found is None or error.errno is None:
        return click.ClickException(f"Cannot listen: {error.strerror}. Is --host an address of this machine?")
    address = f"{found['host']}:{found['port']}"
    match error.errno:
        case errno.EADDRINUSE:
            words = f"{address} is in use, perhaps by another server: stop it, or choose another port {where}."
        case errno.EACCES:
            words = f"This user may not listen on {address}: choose a port above 1023 {where}."
        case _:
            words = f"Cannot listen on {address}: {os.strerror(error.errno)}."
    return click.ClickException(words)


def _reject_options(context: click.Context, game: str) -> None:
    """The game made the server, so its settings are in the game's code."""
    for parameter in context.command.params:
        is_setting = isinstance(parameter, click.Option) and parameter.name not in {*LOG_OPTIONS, "supervised"}
        if is_setting and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise click.ClickException(f"{game} makes its own server: set {parameter.opts[0]} there, in its code.")


def _api(host: str, port: int, tls: Tls | None, web: Path | None, sockets: Sequence[socket.socket] = ()) -> HttpApi:
    # On loopback without TLS: the certificate is for another name, and nobody else is on the way.
    if is_loopback(host):
        tls = None
    try:
        return HttpApi(host, port, keys=read_api_keys(), tls=tls, web=web, sockets=sockets)
    except ValueError as error:
        advice = f"set ${API_KEY_VARIABLE}" if web is None else "remove --web or --http-host"
        raise click.ClickException(f"{error} On the command line: {advice}.") from None


# What is printed when it listens


def _announce(console: Console, server: Server, game: Game, store_info: StoreInfo) -> None:
    """Print what is served, where, and what will outlive the process."""
    show_facts(console, game.name, _facts(server, game, store_info))


def _facts(server: Server, game: Game, store_info: StoreInfo) -> Iterator[Fact]:
    rooms = []
    for room in game.rooms:
        durability = "" if room.durability == "memory" else f", {room.durability}"
        rooms.append(f"{room.kind} ({room.max_players:g} seats{durability})")
    yield "rooms", ", ".join(rooms)
    yield from _listening(server)
    if isinstance(server.http, HttpApi) and server.http.web is not None:
        yield "play", f"{server.http.scheme}://{peer_name(server.addresses['http'])}{PLAY}/"
    if store_info.supervised is not None:
        yield from store_info.supervised.facts(server.room_types)
    yield from _stored(server, game, store_info)
    if store_info.forgets_guests:
        yield "guests", "lose their identity when the server restarts; see --store and --secret-file"


def _listening(server: Server) -> Iterator[Fact]:
    """Where it listens, and who may connect."""
    listeners = server.listeners
    yield from server.urls.items()
    if (udp := server.addresses.get(Udp.transport)) is not None:
        yield "udp", f"{peer_name(udp)}, for unreliable messages of these"
    for tls in listeners.certificates:
        yield "tls", f"{tls.certificate}, read again when it changes"
    if listeners.is_insecure:
        yield "", "insecure: unencrypted traffic can be read and changed on its way"
    if listeners.origins:
        yield "origins", ", ".join(listeners.origins)
    elif any(isinstance(each, WebSocket) and each.is_public for each in listeners.listen):
        yield "origins", "any: pages of all sites may connect; allow only your game's with --origin"
    for names, has_header in listeners.proxies:
        yield "proxies", ", ".join(names) + (", with the PROXY protocol" if has_header else "")
    if server.limits.full_share:
        yield "shares", f"no limit per address for {', '.join(server.limits.full_share)}"
    if server.http is not None:
        address = f"{server.http.scheme}://{peer_name(server.addresses['http'])}"
        yield "http", f"{address}/docs"
        yield "dashboard", f"{address}/"


def _stored(server: Server, game: Game, store_info: StoreInfo) -> Iterator[Fact]:
    recovery = server.parts.recovery
    if recovery is None:
        return
    supervised = store_info.supervised
    is_temporary = supervised is not None and store_info.store == supervised.store
    if store_info.worker is not None and not store_info.store:
        return  # the supervisor has something to say about all workers
    if server.parts.cluster is not None:
        yield "cluster", server.parts.cluster.place
        others = server.parts.cluster.others
        yield "nodes", f"{server.parts.name} (this one)" + "".join(f", {name}" for name in others)
        return
    where = (
        "temporary, until this command ends; use --store to keep it" if is_temporary else shown_store(store_info.store)
    )
    yield "store", where or "set up by the game"
    if game.server is not None or any(room.durability != "memory" for room in game.rooms):
        words = f"{counted(len(server.rooms), 'room')}, {counted(len(server.sessions), 'session')}"
        if store_info.is_lazy:
            words += "; others are recovered on request"
        if recovery.set_aside:
            words += f"; {counted(len(recovery.set_aside), 'record')} set aside, see the log"
        yield "recovered", words
    else:
        yield "", 'no room is durable, so no room is saved: set durability = "commit" on a Room class to save it'
    if store_info.store == _IN_MEMORY:
        yield "", "in memory: everything is lost when this process ends"
