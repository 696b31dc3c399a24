"""Surge: replicas that a rollout places in addition to those that the deployment asks for."""

from collections.abc import Collection

from msgspec.structs import replace

from modelplane.scheduler.placement.placement import Placement
from modelplane.scheduler.schedule import schedule
from modelplane.scheduler.types import Deployment, Fleet


def with_surge(
    fleet: Fleet, deployment: Deployment, base: Placement, surge: int, excess: Collection[str] = ()
) -> Placement:
    """Return a placement with this many replicas in addition, where there is capacity.

    The diagnosis stays that of the replicas that the deployment asks for. So do the replicas that are no
    longer needed elsewhere: a drain does not wait for surge replicas. Those named in ``excess`` go first.
    """
    if not surge:
        return _without_surge(fleet, deployment, base, excess)
    fewer = (
        base
        if all(each.retained for each in base.assignments)
        else schedule(fleet, deployment, together=False)
    )
    asked = {(each.cluster, each.index) for each in fewer.assignments if not each.leaving}
    more = schedule(
        without_marks(fleet, deployment, excess),
        replace(deployment, replicas=deployment.replicas + surge),
        together=False,
    )
    staying = [each for each in more.assignments if not each.leaving]
    was_surge = {each.name for each in fleet.replicas if each.surge}
    # The two placements may choose other replicas. No more are in addition than are beyond those asked for.
    added = [each for each in staying if (each.cluster, each.index) not in asked]
    added.sort(key=lambda each: each.replica not in was_surge)
    marked = {(each.cluster, each.index) for each in added[: max(0, len(staying) - deployment.replicas)]}
    relieved = {each.replica: each for each in base.dropped}
    assignments = tuple(
        each if each.leaving else replace(each, surge=(each.cluster, each.index) in marked)
        for each in more.assignments
        if not (each.leaving and each.replica in relieved)
    )
    left = {each.replica for each in more.assignments} - {each.replica for each in assignments}
    dropped = sorted((*more.dropped, *(relieved[name] for name in left)), key=lambda each: each.replica)
    placed = sum(each.surge for each in assignments)
    problem = more.diagnosis.sentence() if placed < surge else ""
    return replace(
        more,
        assignments=assignments,
        dropped=tuple(dropped),
        diagnosis=base.diagnosis,
        # None leaves for a replica in addition.
        displaces=base.displaces,
        surge_problem=problem,
    )


def _without_surge(
    fleet: Fleet, deployment: Deployment, base: Placement, excess: Collection[str]
) -> Placement:
    """Return a placement in which a surge replica that serves stays in the place of one that does not."""
    own = [each for each in fleet.replicas if each.deployment_uid == deployment.uid]
    staying = {each.replica for each in base.assignments if not each.leaving}
    goes = any(each.surge and each.serves and each.name not in {*staying, *excess} for each in own)
    if not goes or all(each.serves for each in own if each.name in staying):
        return base
    return schedule(without_marks(fleet, deployment, excess), deployment)


def with_marks(fleet: Fleet, deployment: Deployment, excess: Collection[str]) -> Fleet:
    """Return a fleet in which the replicas named in ``excess`` go first, as surge replicas do."""
    marked = (
        replace(each, surge=True) if each.deployment_uid == deployment.uid and each.name in excess else each
        for each in fleet.replicas
    )
    return replace(fleet, replicas=tuple(marked)) if excess else fleet


def without_marks(fleet: Fleet, deployment: Deployment, excess: Collection[str] = ()) -> Fleet:
    """Return a fleet in which a deployment's surge replicas are like all others.

    If one of its replicas has to go, it is one of those named in ``excess``, and then one that does not
    serve, surge or not.
    """
    return replace(
        fleet,
        replicas=tuple(
            replace(each, surge=each.name in excess) if each.deployment_uid == deployment.uid else each
            for each in fleet.replicas
        ),
    )
