"""Steps: what to do next about one release, decided from the instruction and Helm's storage. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from modelplane.controllers.helm.helm_storage import DEPLOYED, FAILED, UNINSTALLED, UNINSTALLING, History


class Action(StrEnum):
    """A run of Helm; the value is the reason in conditions."""

    INSTALL = "Installing"
    UPGRADE = "Upgrading"
    ROLL_BACK = "RollingBack"
    """Back to the last revision that worked, after a failed or an interrupted upgrade."""
    CLEAR = "Repairing"
    """Remove what an interrupted installation left, to install it again."""
    UNINSTALL = "Uninstalling"

    @property
    def verb(self) -> str:
        """The action in messages."""
        return _VERBS[self]


_VERBS = {
    Action.INSTALL: "install",
    Action.UPGRADE: "upgrade",
    Action.ROLL_BACK: "roll back",
    Action.CLEAR: "remove the interrupted",
    Action.UNINSTALL: "uninstall",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A run of Helm, and the revision that it goes back to, if it does."""

    action: Action
    revision: int = 0


def next_step(digest: str, history: History | None) -> Step | None:
    """Return the next step towards an instruction with a digest; None if nothing is to be done.

    No helm process may be at work on the release: a pending revision is then one that was interrupted.
    """
    if history is None or history.last.status == UNINSTALLED:
        return Step(Action.INSTALL)
    last, good = history.last, history.good
    if last.status == UNINSTALLING:
        return Step(Action.UNINSTALL)
    if last.is_pending:
        return Step(Action.ROLL_BACK, good.number) if good else Step(Action.CLEAR)
    if last.status == FAILED and last.digest == digest and good:
        return Step(Action.ROLL_BACK, good.number)
    if last.status == DEPLOYED and last.digest == digest:
        return None
    return Step(Action.UPGRADE)
