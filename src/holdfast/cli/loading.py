"""Load a game's file or module, and find the rooms to serve in it."""

import importlib
import importlib.util
import inspect
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click

import holdfast
from holdfast import Queue, Room, Server
from holdfast.server.display_names import CheckName

_NOT_OF_THE_GAME = (str(Path(holdfast.__file__).parent), "<frozen importlib", importlib.__file__)


@dataclass(frozen=True, slots=True)
class Game:
    """What a game's file defines: a server of its own; or rooms, queues for placements and a check of names."""

    name: str
    server: Server | None
    rooms: list[type[Room[Any]]]
    queues: list[Queue] = field(default_factory=list)
    check_name: CheckName | None = None


def load(target: str, *, full_traceback: bool = False) -> Game:
    """Run a game's file (`game.py`) or module (`games.arena`); an error in it is a `ClickException`."""
    return _game(target, load_module(target, full_traceback=full_traceback))


def load_module(target: str, *, full_traceback: bool = False) -> ModuleType:
    """Run a file or module of the user's own; an error in it is a `ClickException`."""
    try:
        is_file = target.endswith(".py") or "/" in target or "\\" in target or Path(target).exists()
        return _load_file(Path(target)) if is_file else _load_module(target)
    except click.ClickException:
        raise
    except Exception as error:  # noqa: BLE001 - the author is shown whatever the game's code raises
        click.echo(_traceback(error, full=full_traceback), err=True, nl=False)
        raise click.ClickException(f"{target} could not be loaded; see above.") from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise click.ClickException(f"There is no file {path}.")
    # The file may import modules beside it, as when Python runs it.
    sys.path.insert(0, str(path.parent.resolve()))
    # Under its own name, so that they may import it too; but never replacing a module that is loaded already.
    name = path.stem if path.stem not in sys.modules else f"game_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.ClickException(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise click.ClickException(f"There is no module or file named {name} here.") from None
        raise


def _game(target: str, module: ModuleType) -> Game:
    server = getattr(module, "server", None)
    if isinstance(server, Server):
        return Game(target, server, [])
    rooms = getattr(module, "rooms", None)
    if isinstance(rooms, list | tuple) and rooms:
        others = [room for room in rooms if not _is_room_type(room)]
        if others:
            raise click.ClickException(f"`rooms` in {target} must hold Room classes; got {others[0]!r}.")
        return Game(target, None, list(rooms), _queues(target, module), _check_name(target, module))
    found = [
        value
        for name, value in vars(module).items()
        if _is_room_type(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not found:
        raise click.ClickException(
            f"{target} has no rooms: define a class that subclasses holdfast.Room, or a list `rooms` of such classes."
        )
    return Game(target, None, list(dict.fromkeys(found)), _queues(target, module), _check_name(target, module))


def _queues(target: str, module: ModuleType) -> list[Queue]:
    queues = getattr(module, "queues", [])
    if not isinstance(queues, list | tuple) or not all(isinstance(queue, Queue) for queue in queues):
        raise click.ClickException(f"`queues` in {target} must be a list of holdfast.Queue; got {queues!r}.")
    return list(queues)


def _check_name(target: str, module: ModuleType) -> CheckName | None:
    check: Any = getattr(module, "check_name", None)
    if check is not None and (not callable(check) or inspect.iscoroutinefunction(check)):
        raise click.ClickException(f"`check_name` in {target} must be a plain function; got {check!r}.")
    return cast("CheckName | None", check)


def _is_room_type(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Room) and value is not Room


def _traceback(error: Exception, *, full: bool) -> str:
    """The error as Python prints it, without the frames of Holdfast and of the import system."""
    shown = traceback.TracebackException.from_exception(error)
    each = None if full else shown
    while each is not None:
        of_the_game = [frame for frame in each.stack if not frame.filename.startswith(_NOT_OF_THE_GAME)]
        each.stack = traceback.StackSummary.from_list(of_the_game)
        each = each.__cause__ or each.__context__
    return "".join(shown.format())
