"""What Holdfast costs, measured beside what a game developer would use instead: `python -m benchmarks`."""
