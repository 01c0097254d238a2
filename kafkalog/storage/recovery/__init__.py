"""Load the log in a directory and recover it after an unclean stop."""
