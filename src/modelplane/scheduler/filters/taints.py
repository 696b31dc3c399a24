"""Taints of a cluster that the deployment does not tolerate."""

from modelplane.api.fields.cluster.drain_settings import CORDONS, TaintEffect
from modelplane.api.model_deployment import TolerationOperator
from modelplane.api.rejected import Rejected
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment, Taint, Toleration


def check_taints(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster with a taint that is not tolerated; both effects keep new replicas away."""
    repelling = list_untolerated(deployment, cluster)
    if not repelling:
        return None
    taint = str(repelling[0])
    return Rejected(Reason.UNTOLERATED_TAINT, subject=taint, remedy=f"tolerate taint {taint}")


def list_evicting(deployment: Deployment, cluster: Cluster) -> tuple[Taint, ...]:
    """Return the taints that drive running replicas away."""
    return tuple(
        taint for taint in list_untolerated(deployment, cluster) if taint.effect is TaintEffect.NO_EXECUTE
    )


def list_untolerated(deployment: Deployment, cluster: Cluster) -> list[Taint]:
    """Return the taints that no toleration covers, in order of their text, without those of ``cordon``."""
    if not cluster.taints:
        return []
    repelling = (
        taint
        for taint in cluster.taints
        if not (taint.key in CORDONS and taint.effect is TaintEffect.NO_SCHEDULE)
        and not any(is_tolerated(toleration, taint) for toleration in deployment.tolerations)
    )
    return sorted(repelling, key=str)


def is_tolerated(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether a toleration covers a taint."""
    if toleration.effect is not None and toleration.effect is not taint.effect:
        return False
    if toleration.operator is TolerationOperator.EXISTS:
        return toleration.key in ("", taint.key)
    return (toleration.key, toleration.value) == (taint.key, taint.value)
