"""What operators see: events, timelines, packet logs, metrics, traces, health."""
