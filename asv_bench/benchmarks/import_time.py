"""What it costs to import kafkalog, in a fresh interpreter: numpy, and nothing else."""


class Import:
    """`timeraw_` runs the returned code in a process of its own."""

    def timeraw_nothing(self) -> str:
        """The interpreter's own start, to be taken off the others."""
        return "pass"

    def timeraw_numpy(self) -> str:
        """The one dependency that is imported at once."""
        return "import numpy"

    def timeraw_kafkalog(self) -> str:
        """The package."""
        return "import kafkalog"

    def timeraw_kafkalog_reading(self) -> str:
        """What reading needs."""
        return "from kafkalog import FileMessageSet, Log"

    def timeraw_kafkalog_cli(self) -> str:
        """The command."""
        return "import kafkalog.cli"
