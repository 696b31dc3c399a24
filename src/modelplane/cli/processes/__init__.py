"""Commands that are processes: they run until they are stopped."""
