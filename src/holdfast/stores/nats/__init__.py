"""A store on NATS JetStream."""

from holdfast.stores.nats.store import NatsStore

__all__ = ["NatsStore"]
