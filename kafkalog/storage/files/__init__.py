"""Files and their bytes: reading, appending, making durable."""
