"""What the library logs while a command runs, as the command tells all else: in a line on stderr."""

import logging

from kafkalog.cli.output import complain


class LogLines(logging.Handler):
    """A line for each warning, with the reason where an error is; no traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of it."""
        error = record.exc_info[1] if record.exc_info else None
        complain(record.getMessage() + ("" if error is None else f": {error}"))
