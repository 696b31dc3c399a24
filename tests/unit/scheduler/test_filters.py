from modelplane.api.fields.cluster.drain_settings import Cordon
from modelplane.api.fields.pods.pod_keys import PodPart
from modelplane.api.rejected import Rejected
from modelplane.scheduler import (
    CacheFootprint,
    Capabilities,
    Cluster,
    Deployment,
    DeviceRequest,
    Effect,
    Engine,
    Member,
    Taint,
)
from modelplane.scheduler.filters import CLUSTER_FILTERS
from modelplane.scheduler.rejection_reasons import Reason

UNFIT = Cluster(
    "unfit",
    ready=False,
    not_ready="no API server answers",
    taints=(Taint("maintenance", "", Effect.NO_SCHEDULE),),
    cordon=Cordon.CORDONED,
    capabilities=Capabilities(dra=False),
)
DEMANDING = Deployment(
    "ml-team",
    "qwen",
    "uid-qwen",
    1,
    (Engine("main", members=(Member(requests=(DeviceRequest("gpu"),)),)),),
    regions=("eu",),
    cluster_selector={"region": "us"},
    cache=CacheFootprint(known=True),
    pod_parts=(PodPart("annotation", "kuma.io/mesh"),),
)


def test_the_reasons_of_the_filters_are_in_their_order() -> None:
    rejections = [rule(DEMANDING, UNFIT) for rule in CLUSTER_FILTERS]
    reasons = [rejected.reason for rejected in rejections if isinstance(rejected, Rejected)]
    assert reasons == list(Reason)[: len(CLUSTER_FILTERS)]
