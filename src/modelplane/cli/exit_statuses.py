"""Exit statuses of the commands, which are part of the interface; 0 is done."""

FAILED = 1

UNMET = 2
"""The answer is no, such as a replica without a place or a rollout that is not complete; also wrong usage."""

NOT_OURS = 3
"""Crossplane owns the fleet."""

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""
