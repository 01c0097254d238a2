"""What the screens are built from; none of it knows a log."""
