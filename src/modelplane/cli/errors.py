"""How a command says no: one sentence, exit status 1, no traceback.

Exit statuses are part of the interface: 0 done, 1 failed, 2 wrong usage.
"""

import click


class UserError(click.ClickException):
    """Something that the reader can put right; printed as ``Error: ...``."""
