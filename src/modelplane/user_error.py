"""The error of whoever uses Modelplane: a command, a tool or a file asks for what cannot be done.

Deciding code returns ``Rejected``. What has a caller far above raises this: readers of files and of servers,
and commands. Commands print the message, and tools of assistants answer with it, so nothing converts it.
The errors of API servers are explained in ``cli/server_errors.py``.
"""


class UserError(Exception):
    """An error that the user can correct; the message has the failure, object, cause and remedy."""
