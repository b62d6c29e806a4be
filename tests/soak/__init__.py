"""The soak: sessions, rooms and drops come and go for a long time, and what the server costs must not grow.

`python -m tests.soak --minutes 20` (or `make soak MINUTES=20`); see `__main__.py`.
"""
