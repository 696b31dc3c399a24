"""Commands for the authors of models."""
