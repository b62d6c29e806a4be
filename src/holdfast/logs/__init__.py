"""Log lines: a constant sentence and fields, through the standard library's loggers."""

from holdfast.logs.lines import Rows, get_logger

__all__ = ["Rows", "get_logger"]
