"""The process of a controller: its threads, its files, its memory."""
