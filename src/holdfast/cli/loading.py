"""Load a game's file or module, and find the rooms to serve in it."""

import importlib
import importlib.util
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import click

import holdfast
from holdfast import Queue, Room, Server

_PACKAGE = str(Path(holdfast.__file__).parent)


@dataclass(frozen=True, slots=True)
class Game:
    """What a game's file defines: a server of its own, or rooms to serve and queues for placements."""

    name: str
    server: Server | None
    rooms: list[type[Room[Any]]]
    queues: list[Queue] = field(default_factory=list)


def load(target: str, *, full_traceback: bool = False) -> Game:
    """Run a game's file (`game.py`) or module (`games.arena`); an error in it is a `ClickException`."""
    try:
        module = _load_file(Path(target)) if _is_file_name(target) else _load_module(target)
    except click.ClickException:
        raise
    except Exception as error:  # noqa: BLE001 - the author is shown whatever the game's code raises
        click.echo(_traceback(error, full=full_traceback), err=True, nl=False)
        raise click.ClickException(f"{target} could not be loaded; see above.") from None
    return _game(target, module)


def _is_file_name(target: str) -> bool:
    return target.endswith(".py") or "/" in target or "\\" in target or Path(target).exists()


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
        return Game(target, None, list(rooms), _queues(target, module))
    found = [
        value
        for name, value in vars(module).items()
        if _is_room_type(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not found:
        raise click.ClickException(
            f"{target} has no rooms: define a class that subclasses holdfast.Room, or a list `rooms` of such classes."
        )
    return Game(target, None, list(dict.fromkeys(found)), _queues(target, module))


def _queues(target: str, module: ModuleType) -> list[Queue]:
    queues = getattr(module, "queues", [])
    if not isinstance(queues, list | tuple) or not all(isinstance(queue, Queue) for queue in queues):
        raise click.ClickException(f"`queues` in {target} must be a list of holdfast.Queue; got {queues!r}.")
    return list(queues)


def _is_room_type(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Room) and value is not Room


def _traceback(error: Exception, *, full: bool) -> str:
    """The error as Python prints it, without the frames of Holdfast and of the import system."""
    if not full:
        for each in _chain(error):
            each.__traceback__ = _of_the_game(each.__traceback__)
    return "".join(traceback.format_exception(error))


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _of_the_game(frames: TracebackType | None) -> TracebackType | None:
    if frames is None:
        return None
    rest = _of_the_game(frames.tb_next)
    file_name = frames.tb_frame.f_code.co_filename
    if file_name.startswith((_PACKAGE, "<frozen importlib", importlib.__file__)):
        return rest
    return TracebackType(rest, frames.tb_frame, frames.tb_lasti, frames.tb_lineno)
