"""Controllers: work queues, control loops, and server-side apply of what the core composes."""
