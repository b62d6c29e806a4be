"""The end of a process that cannot keep its word any more."""

import logging
import os

from holdfast.logs import get_logger

log = get_logger("holdfast.server")


def end_process(error: Exception) -> None:
    """What was saved may be lost: end at once, so that nothing more is promised. The next start reads what there is."""
    log.critical("this process ends: what was saved may be lost", error=error)
    logging.shutdown()
    os._exit(74)
