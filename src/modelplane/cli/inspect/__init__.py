"""Commands that show what is there, or what would be."""
