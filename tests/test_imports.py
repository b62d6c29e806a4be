"""What `import holdfast` brings with it: nothing that takes long and that only some programs need."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Of each, who needs it: a server with tokens, with passwords, with the HTTP API, with metrics,
# with traces; the command line.
ONLY_FOR_SOME = (
    *("cryptography", "jwt", "argon2", "litestar", "uvicorn", "prometheus_client", "opentelemetry"),
    "click",
)


def imported_by(code: str) -> set[str]:
    """The packages that a fresh interpreter has after this."""
    shown = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run(
        [sys.executable, "-c", f"{code}; {shown}"], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(found.stdout.split())


def test_importing_us_imports_nothing_that_only_some_programs_need() -> None:
    assert sorted(imported_by("import holdfast, holdfast.events, holdfast.sync") & set(ONLY_FOR_SOME)) == []


def test_what_is_looked_for_would_be_found() -> None:
    found = imported_by("import holdfast.identity.signatures, holdfast.cli.main")

    assert {"cryptography", "click"} <= found
