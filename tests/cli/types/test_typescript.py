"""`holdfast types`: what it writes compiles, and says exactly what goes over the wire."""

import json
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.cli.main import main
from tests.cases import every_case
from tests.cli.served_games import write
from tests.cli.types.every_type import Everything, everything
from tests.e2e.serving import ROOT

EVERY_TYPE = Path(__file__).parent / "every_type.py"
TSC = ROOT / "node_modules" / ".bin" / "tsc"
NODE = shutil.which("node")


def types_of(game: Path) -> str:
    result = CliRunner().invoke(main, ["types", str(game)])
    assert result.exit_code == 0, result.output
    return result.stdout


def complaint_of(game: Path) -> str:
    result = CliRunner().invoke(main, ["types", str(game)])
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def every_type() -> str:
    return types_of(EVERY_TYPE)


def declaration(text: str, name: str) -> str:
    found = re.search(rf"^export (?:interface|type|const) {name}\b.*?(?=^(?:/\*\*|export )|\Z)", text, re.S | re.M)
    assert found is not None, f"{name} is not in:\n{text}"
    return found[0].strip()


def members(text: str, name: str) -> dict[str, str]:
    """The lines of an interface: what is written before the colon, and behind it."""
    lines = declaration(text, name).splitlines()[1:-1]
    return dict(line.strip().removesuffix(";").split(": ", 1) for line in lines)


def compiled(folder: Path, *files: str) -> dict[str, str]:
    """What the compiler has to say of each file, with the settings of the SDK. A file that is right is not in there."""
    if NODE is None or not TSC.exists():
        pytest.skip("no TypeScript compiler here: run make web")
    options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUnusedLocals", "--skipLibCheck"]
    command = [NODE, str(TSC), "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", *options]
    run = subprocess.run([*command, *files], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    said = re.findall(r"^([^ (]*)(.*\n(?: .*\n)*)", run.stdout + run.stderr, re.MULTILINE)
    complaints: dict[str, str] = {}
    for file, complaint in said:
        complaints[file] = complaints.get(file, "") + complaint
    return complaints


USE = """
import { type Everything, type EverythingToServer, type HallMessages, hallVersion } from "./messages.js";

interface Messages {
  toServer: Record<string, object>;
  toClient: Record<string, object>;
  answers?: Record<string, object | null>;
  version?: string;
}
function join<M extends Messages>(version: M["version"]): M["toClient"] | null {
  return version ? null : null;
}
const shape = (message: Everything): number => {
  switch (message.shape.type) {
    case "circle":
      return message.shape.radius;
    case "square":
      return message.shape.side;
  }
};
export const known = (message: Everything): string[] => message.by_default;
export const given = (message: EverythingToServer): string[] | undefined => message.by_default;
export const joined = join<HallMessages>(hallVersion);
export { shape };
"""
WRONG = 'import type { Place } from "./messages.js";\nexport const place: Place = [1, "two", 3];\n'


def literal(plain: Any) -> str:
    """A decoded value as the client's MessagePack gives it, written in TypeScript."""
    match plain:
        case bytes():
            return f"new Uint8Array({list(plain)})"
        case datetime():
            return f'new Date("{plain.isoformat()}")'
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)}: {literal(each)}" for key, each in plain.items()) + "}"
        case list():
            return "[" + ", ".join(map(literal, plain)) + "]"
        case _:
            return json.dumps(plain)


def told() -> str:
    """A file with what the server encodes."""
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(everything()))
    return f'import type {{ Everything }} from "./messages.js";\nexport const all: Everything = {literal(plain)};\n'


def sent() -> dict[str, Any]:
    """What a client may send: without what may be missing."""
    plain: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(everything()))
    for optional in ("odd-name", "by_default"):
        del plain[optional]
    del plain["by_name"]["a"]["y"], plain["tree"]["children"][0]["children"], plain["box_of_int"]["within"]["within"]
    plain["place"] = plain["place"][:2]
    plain["when"] = plain["when_zoned"] = plain["when"].isoformat()
    return plain


@pytest.fixture(scope="module")
def complaints(every_type: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the compiler has to say of these files: a start of it takes longer than all of them."""
    folder = tmp_path_factory.mktemp("uses")
    sending = 'import type { EverythingToServer } from "./messages.js";\nexport const all: EverythingToServer ='
    uses = {"use.ts": USE, "wrong.ts": WRONG, "told.ts": told(), "sent.ts": f"{sending} {literal(sent())};\n"}
    for name, text in {"messages.ts": every_type, **uses}.items():
        (folder / name).write_text(text, "utf-8")
    return compiled(folder, *uses)


def test_every_type_compiles_and_can_be_used(complaints: dict[str, str]) -> None:
    assert {"messages.ts", "use.ts", ""} & complaints.keys() == set()


def test_what_is_wrong_with_a_message_is_found_by_the_compiler(complaints: dict[str, str]) -> None:
    assert "Type 'string' is not assignable to type 'number'" in complaints["wrong.ts"]


def test_what_the_server_encodes_is_of_the_type_that_the_client_was_told(complaints: dict[str, str]) -> None:
    assert "told.ts" not in complaints


def test_what_the_client_may_send_is_what_the_server_decodes(complaints: dict[str, str]) -> None:
    assert complaints.keys() == {"wrong.ts"}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent()), type=Everything) == everything()


FIELDS = {
    "a_bool": "boolean",
    "a_float": "number",
    "a_str": "string",
    "an_int": "number",
    "nothing": "null",
    "some_bytes": "Uint8Array",
    "anything": "unknown",
    "raw": "unknown",
    "maybe": "number | null",
    "number": "number",
    "text_or_numbers": "string | number[] | null",
    "literal": 'null | "a" | 1',
    "color": "Color",
    "level": "Level",
    "numbers": "number[]",
    "unions": "(number | null)[]",
    "fixed": "[number, string]",
    "varied": "number[]",
    "a_set": "string[]",
    "frozen": "number[]",
    "sequence": "string[]",
    "by_name": "Record<string, Point>",
    "by_color": "Partial<Record<Color, number>>",
    "by_id": "Record<string, number>",
    "point": "Point",
    "place": "Place",
    "box_of_int": "BoxInt",
    "box_of_list": "BoxListStr",
    "tree": "Tree",
    "shape": "Circle | Square",
    "step": "Step",
    "date": "EveryTypeDate",
    "data": "Data",
    "options": "Options",
    "pair": "Pair",
    "when": "Date | string",
    "when_zoned": "Date",
    "when_naive": "string",
    "day": "string",
    "time": "string",
    "lasts": "string",
    "id": "string",
    "price": "string",
    '"odd-name"': "number",
    "unset?": "number",
    "by_default": "string[]",
}


def test_every_type_is_what_the_server_sends(every_type: str) -> None:
    found = members(every_type, "Everything")

    assert {key: set(value.split(" | ")) for key, value in found.items()} == {
        key: set(value.split(" | ")) for key, value in FIELDS.items()
    }


def test_on_the_way_to_the_server_what_has_a_default_may_be_missing(every_type: str) -> None:
    found = members(every_type, "EverythingToServer")

    assert {key for key in found if key.endswith("?")} == {'"odd-name"?', "unset?", "by_default?"}
    assert found["when"] == found["when_zoned"] == "string"
    assert found["point"] == "PointToServer"
    assert found["color"] == "Color"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Color", 'export type Color = "blue" | "red";'),
        ("Level", "export type Level = 1 | 2;"),
        ("Place", "export type Place = [x: number, y: number, z: number];"),
        ("PlaceToServer", "export type PlaceToServer = [x: number, y: number, z?: number];"),
        ("Step", 'export type Step = [tag: "Step", dx: number];'),
        ("Pair", "export type Pair = [left: number, right: string];"),
        ("Circle", 'export interface Circle {\n  type: "circle";\n  radius: number;\n}'),
        ("Options", "export interface Options {\n  loud: boolean;\n  speed?: number;\n}"),
        ("Tree", "export interface Tree {\n  name: string;\n  children: Tree[];\n}"),
        ("TreeToServer", "export interface TreeToServer {\n  name: string;\n  children?: TreeToServer[];\n}"),
        ("BoxInt", "export interface BoxInt {\n  content: number;\n  within: BoxInt | null;\n}"),
        ("Ping", "export type Ping = Record<string, never>;"),
        ("Quiet", "export interface Quiet {\n  howMuch?: number;\n}"),
    ],
)
def test_a_type_is_declared(every_type: str, name: str, text: str) -> None:
    assert declaration(every_type, name) == text


def test_each_kind_of_room_has_its_messages_by_their_wire_names(every_type: str) -> None:
    assert declaration(every_type, "HallMessages") == (
        "export interface HallMessages {\n"
        "  toServer: {\n    everything: EverythingToServer;\n    ping: Ping;\n  };\n"
        '  toClient: {\n    everything: Everything;\n    quiet: Quiet;\n    "said.loudly": Said;\n  };\n'
        "  answers: {\n    ping: Pong | Quiet | null;\n  };\n"
        "  options: Loadout;\n"
        "  version: typeof hallVersion;\n}"
    )
    assert members(every_type, "Loadout") == {
        "weapon": '"bow" | "sword"',
        "level?": "number",
        "place?": "PlaceToServer | null",
    }
    assert "options" not in declaration(every_type, "SilentMessages")
    assert "toServer: Record<never, never>;" in declaration(every_type, "SilentMessages")


def test_it_is_the_same_every_time_and_says_where_it_comes_from(every_type: str) -> None:
    assert types_of(EVERY_TYPE) == every_type
    assert every_type.startswith("// Generated by `holdfast types every_type.py`; do not edit.")


def test_a_comment_of_the_game_cannot_end_ours(every_type: str) -> None:
    assert " * With a comment of several lines that cannot be ended early: * /\n */" in every_type


# What cannot be said


def game_with(field: str) -> str:
    return f"""
        from holdfast import Message, PlayerData, Room, on

        class Thing:
            pass

        class Inner(Message):
            field: {field}

        class Move(Message):
            inner: Inner

        class Arena(Room[PlayerData]):
            @on(Move)
            def moved(self, player, move): ...
    """


@every_case(
    ("field", "says"),
    [
        ("Thing", "Inner.field has a type that cannot be written in TypeScript: Thing"),
        ("dict[int, str]", "Inner.field has keys that are not text"),
        ("list[dict[float, str]]", "Inner.field has keys that are not text"),
    ],
)
def test_what_cannot_be_said_is_an_error_that_names_class_and_field(tmp_path: Path, field: str, says: str) -> None:
    line = complaint_of(write(tmp_path, game_with(field), f"unsaid_{abs(hash(field))}.py"))

    assert says in line


@every_case(
    ("field", "written"),
    [
        ('Annotated[int, Meta(description="how many")]', "number"),
        ('list[Annotated[int | None, Meta(title="Number")]]', "(number | null)[]"),
        ('dict[Annotated[str, Meta(examples=["a"])], int]', "Record<string, number>"),
        ('dict[Annotated[Literal["a"], Meta(title="Key")], int]', 'Partial<Record<"a", number>>'),
    ],
)
def test_a_type_is_the_same_with_words_about_it(tmp_path: Path, field: str, written: str) -> None:
    imports = "from typing import Annotated, Literal\n        from msgspec import Meta\n        from holdfast import"
    game = game_with(field).replace("from holdfast import", imports)

    text = types_of(write(tmp_path, game, f"described_{abs(hash(field))}.py"))

    assert members(text, "Inner") == {"field": written}


def test_a_class_that_is_called_as_half_of_another_is_an_error(tmp_path: Path) -> None:
    game = write(
        tmp_path,
        """
        import msgspec
        from holdfast import Message, PlayerData, Room, on

        class Point(msgspec.Struct):
            x: int = 0

        class PointToServer(msgspec.Struct):
            z: str

        class Move(Message):
            to: Point

        class Moved(Message):
            to: Point
            other: PointToServer

        class Arena(Room[PlayerData]):
            @on(Move)
            def moved(self, player, move): ...
        """,
        "half_of_another.py",
    )

    line = complaint_of(game)

    assert "two classes would be called PointToServer: rename one of them" in line


def test_two_classes_of_one_name_are_told_apart_by_their_modules(tmp_path: Path) -> None:
    write(tmp_path, "import msgspec\nclass Point(msgspec.Struct):\n    x: int\n", "items_one.py")
    write(tmp_path, "import msgspec\nclass Point(msgspec.Struct):\n    x: str\n", "maps_two.py")
    game = write(
        tmp_path,
        """
        import items_one, maps_two
        from holdfast import Message, PlayerData, Room

        class Seen(Message):
            item: items_one.Point
            place: maps_two.Point

        class Arena(Room[PlayerData]): ...
        """,
        "two_points.py",
    )

    found = members(types_of(game), "Seen")

    assert found == {"item": "ItemsOnePoint", "place": "MapsTwoPoint"}
