"""Placing one deployment on the fleet: keep, scale down, fill, explain.

One rule: replicas that exist are inputs. Nothing is moved to improve a placement.
"""

from collections.abc import Sequence

from modelplane.scheduler.diagnose import diagnose
from modelplane.scheduler.effort import Effort
from modelplane.scheduler.fill import Filled, fill
from modelplane.scheduler.indices import Indices
from modelplane.scheduler.ledger import Ledger
from modelplane.scheduler.placement import Assignment, Dropped, Placement
from modelplane.scheduler.placer import Placer
from modelplane.scheduler.retention import Gone, Kept, Leaving, hold, retain, yielding
from modelplane.scheduler.scale_down import victims
from modelplane.scheduler.selection import Selection
from modelplane.scheduler.types import Deployment, Fleet, Replica


def schedule(fleet: Fleet, deployment: Deployment) -> Placement:
    """Place every replica of the deployment.

    The result is the same in any order of the fleet's clusters and replicas. Raises SelectorError when a
    selector does not compile; the caller then keeps everything as it is.
    """
    selection = Selection(deployment)
    effort = Effort()
    placer = Placer(deployment, selection, effort)
    ledger = Ledger(fleet.replicas, selection, effort)
    clusters = {cluster.name: cluster for cluster in fleet.clusters}
    ours = [replica for replica in fleet.replicas if replica.deployment_uid == deployment.uid]

    fates = retain(deployment, ours, clusters, placer, ledger)
    fates = yielding(fates, fleet.replicas, clusters, ledger)
    hold(fates, ledger)
    kept = [fate for fate in fates if isinstance(fate, Kept)]
    leaving = [fate for fate in fates if isinstance(fate, Leaving)]
    gone = [fate for fate in fates if isinstance(fate, Gone)]

    surplus = victims([fate.replica for fate in kept], len(kept) - deployment.replicas)
    kept = [fate for fate in kept if fate.replica not in surplus]
    relieved = _relieved(deployment, kept, leaving)
    leaving = [fate for fate in leaving if fate.replica not in relieved]

    indices = Indices(ours)
    departing = [_leave(fate, indices) for fate in leaving]
    staying = [_stay(fate, indices) for fate in kept]
    shortfall = deployment.replicas - len(kept)
    filled = (
        Filled()
        if _waits_for_cache(deployment)
        else fill(deployment, shortfall, clusters, indices, [fate.replica for fate in kept], placer, ledger)
    )
    assignments = [
        *departing,
        *staying,
        *(Assignment(new.cluster, new.index, new.engines) for new in filled.placed),
    ]
    return Placement(
        tuple(sorted(assignments, key=lambda each: (each.cluster, each.index, each.replica))),
        _dropped(gone, surplus, relieved),
        diagnose(deployment, clusters, kept, leaving, filled, placer, ledger, effort),
    )


def _waits_for_cache(deployment: Deployment) -> bool:
    return deployment.cache is not None and not deployment.cache.known


def _relieved(deployment: Deployment, kept: Sequence[Kept], leaving: Sequence[Leaving]) -> list[Replica]:
    """Return the leaving replicas that are not needed: enough are ready without them."""
    ready = sum(fate.replica.ready for fate in kept)
    needed = max(deployment.replicas - ready, 0)
    return victims([fate.replica for fate in leaving], len(leaving) - needed)


def _stay(fate: Kept, indices: Indices) -> Assignment:
    replica = fate.replica
    return Assignment(replica.cluster, indices.keep(replica), fate.engines, replica.name, retained=True)


def _leave(fate: Leaving, indices: Indices) -> Assignment:
    replica = fate.replica
    return Assignment(
        replica.cluster,
        indices.keep(replica),
        replica.engines,
        replica.name,
        retained=True,
        leaving=True,
        reason=fate.reason,
    )


def _dropped(
    gone: Sequence[Gone], surplus: Sequence[Replica], relieved: Sequence[Replica]
) -> tuple[Dropped, ...]:
    dropped = [
        *(Dropped(fate.replica.name, fate.reason) for fate in gone),
        *(Dropped(replica.name, "scaled down") for replica in surplus),
        *(Dropped(replica.name, "it no longer fits, and is no longer needed") for replica in relieved),
    ]
    return tuple(sorted(dropped, key=lambda each: each.replica))
