"""Breaker: stops every replacement while the losses look like a fault of the observer.

One region may be lost as a whole. If more than a third of the other clusters are silent too, or none answers,
or the control plane itself does not answer in time, then what is seen proves little. A silent cluster counts
even if nothing tells whether it is lost.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from modelplane.deciders.cluster_health.evidence import State
from modelplane.deciders.cluster_health.standing import Standing

_ANSWERS = (State.REACHABLE, State.RETURNING)


class Located(msgspec.Struct, frozen=True):
    """A cluster's standing, and the region that it is in; empty for none."""

    standing: Standing
    region: str = ""


def paused(clusters: Mapping[str, Located], own_problem: str) -> str:
    """Return why nothing may be replaced; empty if it may, or if no cluster is lost."""
    counted = {name: each for name, each in clusters.items() if each.standing.state is not State.GONE}
    if not any(each.standing.state is State.LOST for each in counted.values()):
        return ""
    if own_problem:
        return f"the control plane cannot judge clusters: {own_problem}"
    if not any(each.standing.state in _ANSWERS for each in counted.values()):
        return "no cluster of the fleet answers, so the fault may be the control plane's own connection"
    # A cluster without a region is one of its own.
    regions = {name: each.region or f"cluster {name}" for name, each in counted.items()}
    silent = [name for name, each in counted.items() if each.standing.silent]
    ranked = Counter(regions[name] for name in silent).most_common()
    most = max(count for _, count in ranked)
    exempt = min(region for region, count in ranked if count == most)
    outside = [name for name in counted if regions[name] != exempt]
    also = [name for name in outside if name in silent]
    if len(also) * 3 > len(outside):
        return f"{len(also)} of the {len(outside)} clusters outside {exempt} do not answer either"
    return ""
