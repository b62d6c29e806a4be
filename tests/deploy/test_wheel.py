"""What is installed from us: the code, the pages that were built, and what `holdfast new` writes."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGES = ("holdfast/http/site/index.html", "holdfast/http/site/holdfast.js", "holdfast/cli/demo/site/index.html")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files in a wheel that was just built."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], check=True, cwd=ROOT)
    [wheel] = folder.glob("*.whl")
    with ZipFile(wheel) as files:
        return set(files.namelist())


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_are_in_it_though_they_are_not_in_the_repository(names: set[str], page: str) -> None:
    if not (SOURCE / page).is_file():
        pytest.skip("the pages are not built: `make web`")

    assert page in names


def test_everything_that_is_not_code_is_in_it(names: set[str]) -> None:
    files = {file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.tmpl")} | {"holdfast/py.typed"}

    assert len(files) > 5
    assert files <= names
