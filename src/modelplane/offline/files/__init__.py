"""Files: the input of commands, as objects with positions, and their output."""
