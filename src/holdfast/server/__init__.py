"""The shell around the rules: connections, rooms' turns, timers."""
