"""All planted bugs, by their names: each must be caught, to prove that the checker can fail."""

from tests.simulation import channel_mutants, session_mutants
from tests.simulation.planting import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "channel_mutants", "session_mutants"]
