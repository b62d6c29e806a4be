"""What a game's code raised while a test ran. A server contains it and goes on; a test should fail with it."""

import traceback

# A hook that fails fails often: the first ones tell what is wrong.
_KEPT_MAX = 20

Allowed = type[Exception] | tuple[type[Exception], ...]
"""Types of errors that a test provokes."""


class GameFailed(ExceptionGroup[Exception]):
    """The game's code raised while the test ran; each error has a note that says where."""

    def explained(self) -> str:
        """The whole of it with tracebacks, as text."""
        return "".join(traceback.format_exception(self))


class Failures:
    """The errors of one server."""

    def __init__(self, allowed: Allowed = ()) -> None:
        self.errors: list[Exception] = []
        """All of them, in order; also those that are allowed."""
        self._allowed = allowed
        self._unexpected: list[Exception] = []
        self._more = 0

    def add(self, error: Exception, where: str) -> None:
        """This was raised."""
        if len(self.errors) < _KEPT_MAX:
            self.errors.append(error)
        if isinstance(error, self._allowed):
            return
        if len(self._unexpected) < _KEPT_MAX:
            error.add_note(f"raised in {where}")
            self._unexpected.append(error)
        else:
            self._more += 1

    def check(self) -> None:
        """Raise what was not expected, once."""
        unexpected, self._unexpected = self._unexpected, []
        more, self._more = self._more, 0
        if unexpected:
            count = f" ({more} later ones are not shown)" if more else ""
            allowed = type(unexpected[0]).__name__
            raise GameFailed(
                f"the game's code raised{count}; if a test provokes it, MemoryServer(…, allow_errors={allowed})",
                unexpected,
            )
