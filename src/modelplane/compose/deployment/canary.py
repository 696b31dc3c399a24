"""Canary of a rollout: its step, its share of the requests, and the replicas that it needs.

The state is in the deployment's status, and follows from it, the replicas that exist, and the last decision
of the control loop that counts answers. Replicas have the new revision by their label. There is a canary
while replicas of both revisions exist: without older ones there is nothing to compare with or to return to.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil

import msgspec
from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.fields.deployment.rollout_settings import CanaryPhase, CanarySettings, CanaryStatus
from modelplane.api.meta import Object
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.replica_lifecycle import Phase
from modelplane.compose.deployment.replica_state import is_updating, list_replicas, serves
from modelplane.compose.deployment.revisions import revision
from modelplane.deciders.canary import Decision, Observed, Outcome

_LONGEST = 1024
"""Characters of a message in the status."""


class Canary(msgspec.Struct, frozen=True):
    """State of a deployment's canary."""

    status: CanaryStatus
    serves: bool = False
    """True if as many replicas of the new revision serve as the step needs."""
    has_older: bool = True
    """True if there are replicas of other revisions."""
    holds: str = ""
    """Reason for which the step cannot be decided; empty if there is none."""
    unsupported: str = ""
    """Reason for which there can be no canary, with the remedy; empty if there can."""

    @property
    def is_running(self) -> bool:
        """Return True while no more replicas are updated than a step needs."""
        return self.status.phase is CanaryPhase.RUNNING

    @property
    def phase(self) -> Phase:
        """Return the phase of the rollout: without older replicas there is nothing to compare with."""
        if self.status.phase is CanaryPhase.PROMOTED or not self.has_older:
            return Phase.ROLLOUT
        if self.status.phase is CanaryPhase.ABORTED:
            return Phase.ABORTED
        return Phase.REFUSED if self.unsupported else Phase.RUNNING

    @property
    def has_begun(self) -> bool:
        """Return True while a step is in progress, whether its replicas still serve or not."""
        return self.is_running and self.status.step_start_time is not None


def canary(request: DeploymentRequest) -> Canary | None:
    """Return the state of a deployment's canary; None without one."""
    owner = request.owner
    settings = owner.spec.rollout.canary if owner.spec.rollout else None
    if settings is None:
        return None
    current = revision(owner.replica_template())
    replicas = list_replicas(request.observed).values()
    new = [replica for replica in replicas if has_revision(replica, current)]
    old = [replica for replica in replicas if not has_revision(replica, current)]
    before = _find_stored(owner, current)
    if not old:
        is_aborted = before and before.phase is CanaryPhase.ABORTED
        return Canary(before, has_older=False) if before and is_aborted else None
    status = before or _begin(owner, settings, current, new, old)
    # A revision needs no canary if it is promoted, or the stable one that returns.
    is_promoted = current in (owner.metadata.annotations.get(labels.PROMOTED), status.stable_revision)
    if status.phase is CanaryPhase.PROMOTED or is_promoted:
        return Canary(_finish(status, CanaryPhase.PROMOTED))
    if status.phase is CanaryPhase.ABORTED:
        return Canary(status)
    return _advance(request, settings, status, new)


def has_revision(replica: Object, current: str) -> bool:
    """Return True if a replica has a revision of the template."""
    return bool(replica["metadata"].get("labels", {}).get(labels.REVISION) == current)


def _find_stored(owner: ModelDeployment, current: str) -> CanaryStatus | None:
    """Return the canary of the current revision as it was; None if there was none or it begins again."""
    known = _find_last(owner)
    if known is None or known.revision != current:
        return None
    retried = owner.metadata.annotations.get(labels.RETRIED)
    if known.abort_time is not None and retried == timestamp(known.abort_time):
        return None
    return known


def _find_last(owner: ModelDeployment) -> CanaryStatus | None:
    return owner.status.rollout.canary if owner.status.rollout else None


def _begin(
    owner: ModelDeployment,
    settings: CanarySettings,
    current: str,
    new: Sequence[Object],
    old: Sequence[Object],
) -> CanaryStatus:
    """Return the beginning of a canary; a revision that most replicas have already needs none.

    The stable revision is the one that most other replicas have. It stays until a rollout is complete.
    """
    if known := _find_last(owner):
        stable = known.stable_revision
    else:
        counts = Counter(item["metadata"].get("labels", {}).get(labels.REVISION, "") for item in old)
        stable = min(counts, key=lambda count: (-counts[count], count))
    return CanaryStatus(
        phase=CanaryPhase.PROMOTED if len(new) > len(old) else CanaryPhase.RUNNING,
        revision=current,
        stable_revision=stable,
        weight=settings.steps[0].weight,
    )


def _advance(
    request: DeploymentRequest,
    settings: CanarySettings,
    before: CanaryStatus,
    new: Iterable[Object],
) -> Canary:
    """Return a canary after the last decision on its step."""
    owner, observed = request.owner, request.facts.canary
    status = replace(before, step=min(before.step, len(settings.steps)))
    status = _set_needed(owner, settings, status)
    if unsupported := _unsupported(owner, observed):
        return Canary(status, unsupported=unsupported)
    serving = sum(serves(item) and not is_updating(item) for item in new)
    decision = _decision(status, observed)
    if decision is not None:
        status = replace(status, message=decision.message[:_LONGEST])
        if decision.outcome is Outcome.ABORTED:
            return Canary(_finish(status, CanaryPhase.ABORTED, abort_time=request.now))
        if decision.outcome is Outcome.ENDED and serving >= status.replicas and not is_paused(owner):
            if status.step == len(settings.steps):
                return Canary(_finish(status, CanaryPhase.PROMOTED))
            status = replace(status, step=status.step + 1, step_start_time=None, message="")
            status = _set_needed(owner, settings, status)
    is_there = serving >= status.replicas
    if status.step_start_time is None and is_there and request.now is not None and not is_paused(owner):
        status = replace(status, weight=settings.steps[status.step - 1].weight, step_start_time=request.now)
    holds = decision.message if decision and decision.outcome is Outcome.HOLDS else ""
    return Canary(status, serves=is_there, holds=holds)


def _finish(status: CanaryStatus, phase: CanaryPhase, abort_time: dt.datetime | None = None) -> CanaryStatus:
    return replace(status, phase=phase, weight=0, step_start_time=None, abort_time=abort_time)


def is_paused(owner: ModelDeployment) -> bool:
    """Return True if the rollout of a deployment is paused."""
    return owner.spec.rollout is not None and owner.spec.rollout.paused


def _set_needed(owner: ModelDeployment, settings: CanarySettings, status: CanaryStatus) -> CanaryStatus:
    """Return a state with the number of replicas that its step needs: at least one, and never all."""
    weight, replicas = settings.steps[status.step - 1].weight, owner.spec.replicas
    return replace(status, replicas=max(1, min(ceil(weight * replicas / 100), replicas - 1)))


def _unsupported(owner: ModelDeployment, observed: Observed | None) -> str | None:
    name = f"md/{owner.metadata.name} -n {owner.metadata.namespace}"
    or_without = f"or continue without a canary with `modelplane rollout promote {name}`"
    if observed is None:
        return (
            "responses can't be counted here, so the canary cannot start and no replica is updated: remove "
            f"spec.rollout.canary, {or_without}"
        )
    surge = owner.spec.rollout.max_surge if owner.spec.rollout else 0
    if owner.spec.replicas == 1 and surge in (0, "0%"):
        return (
            "a single replica cannot run both revisions, so the canary cannot start and the replica is not "
            f"updated: set spec.rollout.maxSurge to 1, {or_without}"
        )
    return None


def _decision(status: CanaryStatus, observed: Observed | None) -> Decision | None:
    """Return the decision on a step; None if the last one is about another step."""
    if observed is None or status.step_start_time is None:
        return None
    own = status.revision, status.step, timestamp(status.step_start_time)
    return observed.decision if own == (observed.revision, observed.step, observed.started) else None


def timestamp(time: dt.datetime) -> str:
    """Return a time as a status has it (RFC 3339)."""
    return time.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
