"""Looks at the site that `make docs` has built: `python -m tests.docs.site build/docs`.

Every public name of Python and TypeScript must be in the reference, and every link, anchor and image must be there.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
EXPORTS = ROOT / "clients" / "js" / "src" / "index.ts"
MODULES = (
    "holdfast",
    "holdfast.events",
    "holdfast.identity",
    "holdfast.stores",
    "holdfast.sync",
    "holdfast.testing",
    "holdfast.transports",
)
# Of what is handed to games, the engine's half.
ENGINES = {"holdfast.Session", "holdfast.testing.VirtualLoop"}
# Which fields of a struct with a secret may be shown.
ENGINE_NAMES = {"shown"}


# Names


def members_of(kind: type, known: set[str], name: str) -> Iterator[str]:
    """The public members of a class that the reference must have, by the name of the class or of a documented base."""
    for base in kind.__mro__:
        if not base.__module__.startswith("holdfast.") or (base is not kind and is_documented(base, known)):
            continue
        names = {**vars(base), **vars(base).get("__annotations__", {})}
        yield from (f"{name}.{each}" for each in names if not each.startswith("_") and each not in ENGINE_NAMES)


def is_documented(kind: type, known: set[str]) -> bool:
    return any(each.rpartition(".")[2] == kind.__name__ for each in known)


def missing_in_python(known: set[str]) -> list[str]:
    """The public names of Python that are not among the known ones."""
    missing: list[str] = []
    for module in MODULES:
        for short in import_module(module).__all__:
            name = f"{module}.{short}"
            kind = getattr(import_module(module), short)
            if short == "__version__":
                continue
            if name not in known:
                missing.append(name)
            if isinstance(kind, type) and name not in ENGINES:
                missing += [each for each in members_of(kind, known, name) if each not in known]
    return missing


def exports(module: Path) -> set[str]:
    """The names that a TypeScript module exports, and those that it passes on."""
    source = module.read_text()
    found = set(re.findall(r"^export (?:abstract |async )?(?:const|function|class|type|interface) (\w+)", source, re.M))
    for names in re.findall(r"^export (?:type )?\{(.*?)\}", source, re.M | re.S):
        found |= {each.removeprefix("type ").strip() for each in map(str.strip, names.split(",")) if each}
    for other in re.findall(r'^export (?:type )?\* from "\./(\w+)\.js"', source, re.M):
        found |= exports(module.with_name(f"{other}.ts"))
    return found


def known_in_python(site: Path) -> set[str]:
    # Sphinx is installed with the docs alone.
    from sphinx.util.inventory import InventoryFile  # noqa: PLC0415 - only where a site is looked at

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: f"{base}{path}")
    return {name for domain, names in inventory.items() if domain.startswith("py:") for name in names}


# Links


class _Page(HTMLParser):
    """What a page links to, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.anchors |= {said[name] for name in ("id", "name") if name in said}
        target = said.get("href" if tag in {"a", "link"} else "src" if tag in {"img", "script"} else "", "")
        if target and not urlsplit(target).scheme:
            self.targets.add(target)


def broken_links(site: Path) -> list[str]:
    """Each as the page and what it links to."""
    pages = {path: _Page(path.read_text()) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for target in sorted(page.targets):
            parts = urlsplit(target)
            linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_there = linked.exists() and (
                not parts.fragment or linked not in pages or unquote(parts.fragment) in pages[linked].anchors
            )
            if not is_there:
                broken.append(f"{path.relative_to(site)}: {target}")
    return broken


def complaints(site: Path) -> list[str]:
    """Everything that is wrong with a site."""
    typescript = {page.stem for page in (site / "reference" / "typescript").rglob("*.html")}
    return [
        *(f"not in the reference: {name}" for name in missing_in_python(known_in_python(site))),
        *(f"not in the reference of TypeScript: {name}" for name in sorted(exports(EXPORTS) - typescript)),
        *(f"broken link: {link}" for link in broken_links(site)),
    ]


if __name__ == "__main__":
    found = complaints(Path(sys.argv[1]).resolve())
    sys.stderr.writelines(f"{each}\n" for each in found)
    sys.exit(bool(found))
