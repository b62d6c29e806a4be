"""`make fuzz MINUTES=5`: every target in turn; what reaches new code is added to the corpus, what fails is shown."""

import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import click

from tests.fuzz.corpus import keep, kept
from tests.fuzz.targets import TARGETS

INPUT_BYTES_MAX = 4096
# So many are added to the corpus of a target after one run, the shortest first.
FOUND_MAX = 100


def libfuzzer(target: str, *arguments: str) -> int:
    """Run libFuzzer on a target; its exit code."""
    return subprocess.run([sys.executable, "-m", "tests.fuzz.libfuzzer", target, *arguments], check=False).returncode


def fuzz(target: str, seconds: int) -> bool:
    """Fuzz one target for so long, beginning with its corpus; whether nothing was found."""
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{target}-") as folder:
        known, found = Path(folder, "known"), Path(folder, "found")
        known.mkdir()
        found.mkdir()
        for each in kept(target):
            (known / sha256(each).hexdigest()).write_bytes(each)
        options = (f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", f"-artifact_prefix={folder}/")
        is_clean = libfuzzer(target, *options, str(found), str(known)) == 0
        for crash in Path(folder).glob("crash-*"):
            click.echo(f"{target} fails on {crash.read_bytes().hex()}", err=True)
        # It writes only what reached code that nothing before it did.
        keep(target, [*kept(target), *sorted((each.read_bytes() for each in found.iterdir()), key=len)[:FOUND_MAX]])
    return is_clean


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="For all targets.")
@click.option("--target", type=click.Choice(list(TARGETS)), help="Only this one.")
def main(minutes: float, target: str | None) -> None:
    """Fuzz what strangers can send."""
    targets = [target] if target is not None else list(TARGETS)
    seconds = max(1, int(minutes * 60 / len(targets)))
    failed = [each for each in targets if not fuzz(each, seconds)]
    if failed:
        raise click.ClickException(f"bugs in {', '.join(failed)}; the inputs are above")


if __name__ == "__main__":
    main()
