"""Control planes of this machine: their programs, identities and first objects."""
