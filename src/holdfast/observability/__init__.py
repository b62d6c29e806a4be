"""For operators: events, log lines, metrics, timelines, packet and message logs, traces."""
