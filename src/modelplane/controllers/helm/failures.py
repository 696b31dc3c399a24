"""Failures of runs of Helm, and when to try again. Pure."""

from dataclasses import dataclass
from typing import Final

from modelplane.controllers.back_off import delay_s
from modelplane.controllers.helm.instruction import ReleaseId
from modelplane.controllers.helm.steps import Action

FIRST_RETRY_S: Final = 20.0
_LAST_RETRY_S = 1800.0
_CHANGES = (Action.INSTALL, Action.UPGRADE)


@dataclass(frozen=True, slots=True)
class _Failure:
    digest: str
    message: str
    attempts: int
    not_before: float


class Failures:
    """The last failure of each release: of its changes, and of what repairs or removes it."""

    def __init__(self, first_retry_s: float) -> None:
        self._first_retry_s = first_retry_s
        self._failed: dict[tuple[ReleaseId, bool], _Failure] = {}

    def add(self, release: ReleaseId, action: Action, digest: str, message: str, now: float) -> None:
        """Record a failure; the delay before the next attempt doubles each time."""
        known = self._failed.get((release, action in _CHANGES))
        attempts = known.attempts + 1 if known and known.digest == digest else 1
        not_before = now + delay_s(self._first_retry_s, attempts - 1, _LAST_RETRY_S)
        self._failed[release, action in _CHANGES] = _Failure(digest, message, attempts, not_before)

    def succeeded(self, release: ReleaseId, action: Action) -> None:
        """Forget what a success makes obsolete; after a repair, the change that it repairs stays failed."""
        self._failed.pop((release, False), None)
        if action in _CHANGES:
            self._failed.pop((release, True), None)

    def forget(self, release: ReleaseId) -> None:
        """Forget the failures of a release that is as it should be."""
        for is_change in (True, False):
            self._failed.pop((release, is_change), None)

    def message(self, release: ReleaseId) -> str | None:
        """Return the failure of the last change of a release; None if it did not fail."""
        known = self._failed.get((release, True))
        return known.message if known else None

    def blocking(
        self, release: ReleaseId, action: Action, digest: str, retries: int | None, now: float
    ) -> str | None:
        """Return the failure after which it is too early for an action; None if it is due."""
        known = self._failed.get((release, action in _CHANGES))
        if known is None or known.digest != digest:
            return None
        if action in _CHANGES and retries is not None and known.attempts > retries:
            return f"{known.message}; not tried again after {known.attempts} attempts (spec.rollbackLimit)"
        return known.message if now < known.not_before else None

    def pause_s(self, now: float) -> float:
        """Return the time until the next attempt."""
        later = [failure.not_before - now for failure in self._failed.values() if failure.not_before > now]
        return max(0.05, min(later, default=_LAST_RETRY_S))
