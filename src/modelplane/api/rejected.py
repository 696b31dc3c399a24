"""The one refusal: what does not pass a check, why, and what to do.

A check returns ``Rejected | None``, and what builds something returns the result or ``Rejected``. Where no
decision is possible because an input is unknown, a composition returns ``Blocked``. The shell raises
``UserError``.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from modelplane.api.conditions.row import Reason


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """The check does not pass. The same input gives the same rejection."""

    reason: StrEnum | Reason | Literal[""] = ""
    """The case as programs compare it, such as the reason of a condition; empty if none does."""
    subject: str = ""
    """The object, field, taint or request that does not pass."""
    detail: str = ""
    """The fault: how it differs from what is accepted, with the compared values."""
    remedy: str = ""
    """The change that makes it pass, as an imperative; empty if the compared values do not show one."""

    @property
    def message(self) -> str:
        """The rejection as one sentence."""
        fault = f"{self.subject} {self.detail}" if self.subject else self.detail
        return f"{fault}: {self.remedy}" if self.remedy else fault
