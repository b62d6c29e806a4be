"""Log lines: a constant sentence and fields, through the standard library's loggers."""

from holdfast.logs.lines import LogRows, get_logger, prepare_logs

__all__ = ["LogRows", "get_logger", "prepare_logs"]
