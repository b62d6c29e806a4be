"""What `import holdfast` brings with it: what every program needs, and nothing that takes long and only some need."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Packages that `import holdfast` may load besides the standard library: messages, and WebSockets with what they bring.
LOADED = {"holdfast", "msgspec", "picows", "aiofastnet", "multidict", "python_socks", "typing_extensions"}
# A folder without code, in which protobuf is looked for.
LOADED |= {"google"}
# Of each, who needs it: tokens, passwords, the HTTP API, metrics, traces, the first log line (structlog brings rich).
ONLY_FOR_SOME = {"jwt", "argon2", "litestar", "uvicorn", "prometheus_client", "opentelemetry", "structlog", "rich"}


def imported_by(code: str) -> set[str]:
    """The packages that a fresh interpreter has after this, without those of the standard library."""
    shown = "print(*{name.partition('.')[0] for name in set(sys.modules) - known} - sys.stdlib_module_names)"
    program = f"import sys; known = set(sys.modules); {code}; {shown}"
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT)
    return {name for name in ended.stdout.splitlines()[-1].split() if "cython" not in name}


def test_importing_us_imports_nothing_that_only_some_programs_need() -> None:
    assert imported_by("import holdfast, holdfast.events, holdfast.sync, holdfast.http.api") - LOADED == set()


def test_the_command_line_imports_only_what_the_command_that_is_run_needs() -> None:
    found = imported_by("from holdfast.cli.main import main; main(['new', '--help'], standalone_mode=False)")

    assert found & (ONLY_FOR_SOME | {"cryptography"}) == set()


def test_a_server_that_has_started_imports_nothing_for_its_first_log_line() -> None:
    """It takes 50 ms, and the first line comes when a room cannot keep its rate."""
    make = "server = holdfast.Server([type('Arena', (holdfast.Room,), {})], listen=[])"
    start = "loop = asyncio.new_event_loop(); loop.run_until_complete(server.start())"
    code = f"import asyncio, holdfast; {make}; {start}; loop.run_until_complete(server.stop())"

    assert {"structlog", "rich"} <= imported_by(code)


def test_what_is_looked_for_would_be_found() -> None:
    code = "import holdfast.cli.serve; from holdfast.logs import get_logger; get_logger('holdfast').info('hello')"

    assert {"structlog", "rich", "click"} <= imported_by(code)
