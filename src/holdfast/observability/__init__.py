"""What operators see of a server: events, log lines, metrics, timelines, packet and message logs, traces."""
