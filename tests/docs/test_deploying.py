"""The page about deploying: its options exist, and its programs run where a certificate is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.serve import serve
from tests.server.certificates import Certificates

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "deploying.md").read_text()
DOCKERS_OWN = {"--build-arg", "--stop-timeout"}
PROGRAMS = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_option_on_the_page_is_one() -> None:
    options = {option for parameter in serve.params for option in parameter.opts}

    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*", PAGE)) - DOCKERS_OWN <= options


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_where_a_certificate_is(program: str, tmp_path: Path) -> None:
    Certificates(tmp_path)

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )

    assert result.returncode == 0, result.stderr
