"""A placement, for programs without an event loop."""

from holdfast.client import placement as asynchronous
from holdfast.client.background import Background
from holdfast.schemas.placement import PlacementInfo


class Placement:
    """One placement; made by `ClientSession.place`."""

    def __init__(self, background: Background, placement: asynchronous.Placement) -> None:
        self.id = placement.id
        self._background = background
        self._placement = placement

    @property
    def info(self) -> PlacementInfo:
        """How far it is, as far as we have heard."""
        return self._placement.info

    def done(self, timeout: float | None = None) -> PlacementInfo:
        """Wait until it is fulfilled, cancelled, timed out or failed; `TimeoutError` if that takes too long."""
        return self._background.run_for(timeout, self._placement.done, "no end of it")

    def stop(self) -> PlacementInfo:
        """Give it up, if it is still pending."""
        return self._background.run(self._placement.stop)

    def __repr__(self) -> str:
        return repr(self._placement)
