"""The `kafkalog` command: one file for each command, imported on use, so that help does not import numpy.

Exit codes: 0 sound, 1 findings, 2 usage, 3 unreadable, 130 interrupted, 141 the reader of a pipe exited. The function
of a command returns its exit code (None: 0) and raises the errors of the library, which become one line on stderr here.
"""

import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from kafkalog import __version__
from kafkalog.cli.log_lines import LogLines
from kafkalog.cli.output import abandon, complain, flush_stdout
from kafkalog.cli.signals import Terminated
from kafkalog.errors import KafkaLogError, LogLockedError, NotALogError

SOUND = 0
FINDINGS = 1
USAGE = 2
UNREADABLE = 3
INTERRUPTED = 130
BROKEN_PIPE = 141

# A copy of the first line of each command's help, so that listing the commands imports none of them.
COMMANDS = {
    "ls": "List what is there: topics, partitions, segments, records, offsets, times.",
    "status": "Show offsets, watermarks and health, at a glance.",
    "dump": "Print records, or batches.",
    "verify": "Check that everything is as Kafka wrote it.",
    "explain": "Tell what a broker would do at its start.",
    "recover": "Recover a data directory after an unclean stop.",
    "repair": "Mend a damaged data directory in place, or undo that.",
    "salvage": "Copy what is good of a damaged log to a new one.",
    "append": "Append lines from stdin to a partition.",
    "tail": "Show the last records, then new ones.",
    "inspect": "Browse a log in the terminal, while it grows.",
    "demo": "Write a small data directory of a real broker, to try this on.",
    "completion": "Print a shell's completion script for this command.",
}

HELP = """Read, check, repair and write Apache Kafka's log directories, without a broker or a JVM.

\b
Examples:
  kafkalog ls /var/lib/kafka                    what is in a data directory
  kafkalog ls /var/lib/kafka/orders-0           the segments of a partition
  kafkalog status /var/lib/kafka                where its logs begin and end, and how they are
  kafkalog dump orders-0 --from end-10          its last ten records
  kafkalog dump orders-0 --from @2026-01-31T10:00Z -o jsonl | jq .value
                                                records from a time on, as JSON
  kafkalog dump 00000000000000000000.log --batches
                                                the batches of one segment
  kafkalog verify --deep /var/lib/kafka         is all of it sound?
  kafkalog tail -f orders-0                     its last records, then new ones
  kafkalog explain /var/lib/kafka               what would a broker do with it?
  kafkalog recover /var/lib/kafka               as a broker after a crash, faster
  kafkalog repair /var/lib/kafka                how its damage would be mended
  kafkalog salvage damaged/orders-0 /mnt/new/orders-0
                                                its good batches, as a new log
  seq 10 | kafkalog append /tmp/kafka/numbers-0 ten records

A PATH is a data directory, a partition directory or a .log file. Most commands only read it, even while a
broker is running. append, recover, repair and salvage lock the directory that they write to, so no broker may run.
"""

EPILOG = """\b
Exit codes:
  0    sound, or done
  1    findings: something is damaged
  2    wrong usage
  3    unreadable: no such path, no permission, not a log, locked by a writer; or the output was not written
  130  interrupted; the results so far have been printed

\b
Completion in bash: eval "$(kafkalog completion bash)"
Colour: on a terminal only; NO_COLOR or TERM=dumb turn it off.
"""


def exit_code_of(error: Exception) -> int:
    """Return the exit code for an error: damage is a finding, a path that is not readable as a log is not."""
    unreadable = not isinstance(error, KafkaLogError) or isinstance(error, (NotALogError, LogLockedError))
    return UNREADABLE if unreadable else FINDINGS


class Commands(click.Group):
    """The group of all commands. Its `main` turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"kafkalog.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(  # type: ignore[override] # one signature for click's two
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command and end the process with its exit code. With standalone_mode=False, behave like click."""
        if not extra.pop("standalone_mode", True):
            return super().main(args, prog_name, standalone_mode=False, **extra)
        sys.exit(self._exit_code(args, prog_name, **extra))

    def _exit_code(self, args: Sequence[str] | None, prog_name: str | None, **extra: Any) -> int:
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
            flush_stdout()
        except click.ClickException as error:
            return _usage(error)
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except SystemExit:
            # click's reaction to a broken pipe while it prints help.
            return BROKEN_PIPE
        except OSError as error:
            return _stdout_failed(error)
        return code if isinstance(code, int) else SOUND

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Print an error as one line and exit with its code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted")
            ctx.exit(INTERRUPTED)
        except Terminated as end:
            complain(end)
            ctx.exit(end.exit_code)
        except BrokenPipeError as error:
            # Handled here: click would exit with code 1, which means damage.
            ctx.exit(_stdout_failed(error))
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # noqa: BLE001 - every error becomes one line
            _report(error, debug=bool(ctx.params.get("debug")))
            ctx.exit(exit_code_of(error))


def _report(error: Exception, *, debug: bool) -> None:
    """Print an error as one line, with its traceback if `debug`."""
    if debug:
        traceback.print_exception(error)
    known = isinstance(error, (KafkaLogError, OSError))
    complain(error if known else f"internal error: {type(error).__name__}: {error} (--debug shows where)")
    try:
        flush_stdout()
    except OSError:
        # The error has been reported, and may be this one.
        abandon(sys.stdout)


def _usage(error: click.ClickException) -> int:
    """Print an error of usage and return its exit code."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "kafkalog"
    # Old versions of click do not have this error: they print the help themselves.
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        click.echo(error.format_message(), err=True)
    else:
        complain(f"{error.format_message().rstrip('.')} (see {command} --help)")
    return USAGE


def _stdout_failed(error: OSError) -> int:
    """Return the exit code for a failed write to stdout."""
    abandon(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    complain(error)
    return UNREADABLE


@click.group(cls=Commands, help=HELP, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Define the options that all commands share, and print the library's warnings."""
    # Read in Commands.invoke.
    del debug
    logging.getLogger("kafkalog").handlers[:] = [LogLines()]


class _ClosedStdout(io.FileIO):
    """/dev/null, open for reading: in the place of a closed stdout it rejects output, which would get lost."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, "stdout is closed: the output went nowhere") from None


def _mend_closed_streams() -> None:
    """Connect closed standard streams to /dev/null.

    Otherwise the next file to be opened would get the stream's descriptor, and the program would write output to it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.close(number)
            if name == "stdout":
                closed = _ClosedStdout(os.open(os.devnull, os.O_RDONLY), "w", closefd=False)
                sys.stdout = io.TextIOWrapper(io.BufferedWriter(closed), "utf-8")
            else:
                descriptor = os.open(os.devnull, os.O_RDWR)
                setattr(sys, name, os.fdopen(descriptor, "r" if number == 0 else "w", closefd=False))


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process with its exit code."""
    # numpy would start a thread for each processor, for linear algebra, which no command uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _mend_closed_streams()
    cli.main(args, prog_name="kafkalog")
    raise AssertionError("cli.main ends the process")
