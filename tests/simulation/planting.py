"""How bugs are planted: a context manager that puts a wrong method in the place of a right one.

What it replaces must exist: when the library changes, a mutant that has lost its place fails loudly instead of proving
nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

Mutant = Callable[[], AbstractContextManager[None]]
Plant = Callable[[], Iterator[None]]
MUTANTS: dict[str, Mutant] = {}
DURABLE_MUTANTS: dict[str, Mutant] = {}
"""Those that show only in worlds with a store."""
ROLLBACK_MUTANTS: dict[str, Mutant] = {}
"""Those that show only in worlds whose store goes back in time."""
ROBBERY_MUTANTS: dict[str, Mutant] = {}
"""Those that show only in worlds whose players are robbed of their used tokens."""
LINK_MUTANTS: dict[str, Mutant] = {}
"""Those that show only on links that never heal."""

CLUSTER_MUTANTS: dict[str, Mutant] = {}
"""Those that show only in worlds of several nodes."""


def mutant(plant: Plant) -> Plant:
    """Register a planted bug under its name."""
    MUTANTS[plant.__name__] = contextmanager(plant)
    return plant


def durable_mutant(plant: Plant) -> Plant:
    """Register a planted bug of what is saved and brought back."""
    DURABLE_MUTANTS[plant.__name__] = contextmanager(plant)
    return plant


def cluster_mutant(plant: Plant) -> Plant:
    """Register a planted bug of nodes."""
    CLUSTER_MUTANTS[plant.__name__] = contextmanager(plant)
    return plant


def link_mutant(plant: Plant) -> Plant:
    """Register a planted bug of what is written to a bad link."""
    LINK_MUTANTS[plant.__name__] = contextmanager(plant)
    return plant


def rollback_mutant(plant: Plant) -> Plant:
    """Register a planted bug of a store that went back in time."""
    ROLLBACK_MUTANTS[plant.__name__] = contextmanager(plant)
    return plant


def robbery_mutant(plant: Plant) -> Plant:
    """Register a planted bug of tokens that are used up."""
    ROBBERY_MUTANTS[plant.__name__] = contextmanager(plant)
    return plant


@contextmanager
def patched(owner: type | ModuleType, **methods: Any) -> Iterator[None]:
    """Replace methods of a class, or functions of a module, for a while."""
    originals = {name: owner.__dict__[name] for name in methods}
    for name, method in methods.items():
        setattr(owner, name, method)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)
