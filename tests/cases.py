"""Many cases of one claim in one test: for what takes microseconds, a test per case is a hundred times its cost."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Test = Callable[..., Any]


def every_case(
    names: str | Sequence[str], cases: Iterable[Any], ids: Iterable[object] | Callable[[Any], object] | None = None
) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, within one test: the first case that fails ends it and is named.

    For tests that share nothing between cases: no fixtures, or such as do not change.
    """
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    named = _named(listed, list(cases), ids)
    assert named, "a claim about nothing"

    def make(test: Test) -> Test:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run_async(**fixtures: Any) -> None:
                for name, case in named:
                    try:
                        await test(**fixtures, **case)
                    except BaseException as error:
                        error.add_note(f"the case: {name}")
                        raise

            made: Test = run_async
        else:

            @functools.wraps(test)
            def run(**fixtures: Any) -> None:
                for name, case in named:
                    try:
                        test(**fixtures, **case)
                    except BaseException as error:
                        error.add_note(f"the case: {name}")
                        raise

            made = run
        signature = inspect.signature(test)
        kept = [each for each in signature.parameters.values() if each.name not in listed]
        made.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return made

    return make


def _named(names: list[str], cases: list[Any], ids: Any) -> list[tuple[str, dict[str, Any]]]:
    if ids is None:
        labels = [repr(case)[:200] for case in cases]
    elif callable(ids):
        labels = [str(ids(case)) for case in cases]
    else:
        labels = [str(each) for each in ids]
    values = [(case,) if len(names) == 1 else tuple(case) for case in cases]
    return [(label, dict(zip(names, each, strict=True))) for label, each in zip(labels, values, strict=True)]
