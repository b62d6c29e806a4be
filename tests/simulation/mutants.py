"""All planted bugs, by their names: each must be caught, to prove that the checker can fail."""

from tests.simulation import (
    agent_mutants,
    channel_mutants,
    cluster_mutants,
    commit_mutants,
    link_mutants,
    mail_mutants,
    recovery_mutants,
    session_mutants,
    sharing_mutants,
    spectator_mutants,
    transaction_mutants,
)
from tests.simulation.planting import (
    CLUSTER_MUTANTS,
    DURABLE_MUTANTS,
    LINK_MUTANTS,
    MUTANTS,
    ROBBERY_MUTANTS,
    ROLLBACK_MUTANTS,
    Mutant,
)

__all__ = [
    "CLUSTER_MUTANTS",
    "DURABLE_MUTANTS",
    "LINK_MUTANTS",
    "MUTANTS",
    "ROBBERY_MUTANTS",
    "ROLLBACK_MUTANTS",
    "Mutant",
    "agent_mutants",
    "channel_mutants",
    "cluster_mutants",
    "commit_mutants",
    "link_mutants",
    "mail_mutants",
    "recovery_mutants",
    "session_mutants",
    "sharing_mutants",
    "spectator_mutants",
    "transaction_mutants",
]
