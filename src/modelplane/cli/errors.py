"""Errors of commands: one sentence, exit status 1, no traceback.

Exit statuses are part of the interface: 0 done, 1 failed, 2 wrong usage, 3 Crossplane owns the fleet,
130 interrupted.
"""

from modelplane.user_error import UserError

__all__ = ["FAILED", "INTERRUPTED", "NOT_OURS", "UserError"]

FAILED = 1

NOT_OURS = 3

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""
