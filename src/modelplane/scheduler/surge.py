"""Surge: replicas that a rollout places in addition to those that the deployment asks for."""

from dataclasses import replace

from modelplane.scheduler.placement import Placement
from modelplane.scheduler.schedule import schedule
from modelplane.scheduler.types import Deployment, Fleet


def with_surge(fleet: Fleet, deployment: Deployment, base: Placement, surge: int) -> Placement:
    """Return a placement with this many replicas in addition, where there is capacity.

    The diagnosis stays that of the replicas that the deployment asks for.
    """
    if not surge:
        return base
    asked = {(each.cluster, each.index) for each in base.assignments}
    # If one has to go, it is one that does not serve, surge or not.
    alike = replace(fleet, replicas=tuple(replace(each, surge=False) for each in fleet.replicas))
    more = schedule(alike, replace(deployment, replicas=deployment.replicas + surge))
    assignments = tuple(
        replace(each, surge=(each.cluster, each.index) not in asked) for each in more.assignments
    )
    placed = sum(each.surge for each in assignments)
    problem = more.diagnosis.sentence() if placed < surge else ""
    return replace(more, assignments=assignments, diagnosis=base.diagnosis, surge_problem=problem)
