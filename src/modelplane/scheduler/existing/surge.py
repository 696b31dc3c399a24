"""Surge: replicas that a rollout places in addition to those that the deployment asks for."""

from collections.abc import Collection

from msgspec.structs import replace

from modelplane.scheduler.placement.placement import Placement
from modelplane.scheduler.schedule import schedule
from modelplane.scheduler.types import Deployment, Fleet


def place_surge(
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
        if all(assignment.retained for assignment in base.assignments)
        else schedule(fleet, deployment, together=False)
    )
    asked = {
        (assignment.cluster, assignment.index) for assignment in fewer.assignments if not assignment.leaving
    }
    more = schedule(
        unmark_surge(fleet, deployment, excess),
        replace(deployment, replicas=deployment.replicas + surge),
        together=False,
    )
    staying = [assignment for assignment in more.assignments if not assignment.leaving]
    was_surge = {replica.name for replica in fleet.replicas if replica.surge}
    # The two placements may choose other replicas. No more are in addition than are beyond those asked for.
    added = [assignment for assignment in staying if (assignment.cluster, assignment.index) not in asked]
    added.sort(key=lambda assignment: assignment.replica not in was_surge)
    marked = {
        (assignment.cluster, assignment.index)
        for assignment in added[: max(0, len(staying) - deployment.replicas)]
    }
    relieved = {drop.replica: drop for drop in base.dropped}
    assignments = tuple(
        assignment
        if assignment.leaving
        else replace(assignment, surge=(assignment.cluster, assignment.index) in marked)
        for assignment in more.assignments
        if not (assignment.leaving and assignment.replica in relieved)
    )
    left = {assignment.replica for assignment in more.assignments} - {
        assignment.replica for assignment in assignments
    }
    dropped = sorted((*more.dropped, *(relieved[name] for name in left)), key=lambda drop: drop.replica)
    placed = sum(assignment.surge for assignment in assignments)
    problem = more.diagnosis.describe() if placed < surge else ""
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
    replicas = [replica for replica in fleet.replicas if replica.deployment_uid == deployment.uid]
    staying = {assignment.replica for assignment in base.assignments if not assignment.leaving}
    goes = any(
        replica.surge and replica.serves and replica.name not in {*staying, *excess} for replica in replicas
    )
    if not goes or all(replica.serves for replica in replicas if replica.name in staying):
        return base
    return schedule(unmark_surge(fleet, deployment, excess), deployment)


def mark_surge(fleet: Fleet, deployment: Deployment, excess: Collection[str]) -> Fleet:
    """Return a fleet in which the replicas named in ``excess`` go first, as surge replicas do."""
    marked = (
        replace(replica, surge=True)
        if replica.deployment_uid == deployment.uid and replica.name in excess
        else replica
        for replica in fleet.replicas
    )
    return replace(fleet, replicas=tuple(marked)) if excess else fleet


def unmark_surge(fleet: Fleet, deployment: Deployment, excess: Collection[str] = ()) -> Fleet:
    """Return a fleet in which a deployment's surge replicas are like all others.

    If one of its replicas has to go, it is one of those named in ``excess``, and then one that does not
    serve, surge or not.
    """
    return replace(
        fleet,
        replicas=tuple(
            replace(replica, surge=replica.name in excess)
            if replica.deployment_uid == deployment.uid
            else replica
            for replica in fleet.replicas
        ),
    )
