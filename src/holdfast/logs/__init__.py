"""Log lines: a constant sentence and fields, through the standard library's loggers."""

from holdfast.logs.lines import Block, get_logger

__all__ = ["Block", "get_logger"]
