"""`python -m kafkalog.cli`: the command, where it is not on the path."""

from kafkalog.cli import main

main()
