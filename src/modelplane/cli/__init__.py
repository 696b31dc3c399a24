"""Commands, one module each. Their exit statuses are part of the interface: 0 done, 1 failed, 2 wrong usage,
3 Crossplane owns the fleet, 130 interrupted.
"""

FAILED = 1

NOT_OURS = 3

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""
