"""Log lines: a constant sentence and fields, through the standard library's loggers."""

from holdfast.logs.lines import Block, Logger, get_logger

__all__ = ["Block", "Logger", "get_logger"]
