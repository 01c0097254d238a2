"""What the screen of a partition does: it shows views, goes to places, and follows the log."""
