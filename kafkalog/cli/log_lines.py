"""The library's log messages as lines on stderr, like all other messages of a command."""

import logging

from kafkalog.cli.output import complain


class LogLines(logging.Handler):
    """A handler that prints a line for each warning, with its error if there is one, but without a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        error = record.exc_info[1] if record.exc_info else None
        complain(record.getMessage() + ("" if error is None else f": {error}"))
