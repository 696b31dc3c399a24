"""ModelCache: the weights of a model, staged on clusters before engines need them."""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from modelplane.api.fields.cache_sources import HTTP, LARGEST_GIB, NGC, OCI, S3, ClaimedVolume, HuggingFace
from modelplane.api.fields.requests.regions import MOST_REGIONS, Region
from modelplane.api.meta import LabelSelector, Model, ObjectMeta, Status
from modelplane.api.schema.fields import Rule, about


class CacheSource(StrEnum):
    """Source of weights."""

    HUGGING_FACE = "HuggingFace"
    HTTP = "HTTP"
    S3 = "S3"
    OCI = "OCI"
    NGC = "NGC"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"


class CachePhase(StrEnum):
    """Staging on one cluster."""

    PENDING = "Pending"
    HYDRATING = "Hydrating"
    READY = "Ready"
    FAILED = "Failed"


class ModelCacheSpec(Model):
    """The weights to stage, and the target clusters."""

    __rules__ = (
        Rule(
            "self.source != 'HuggingFace' || has(self.huggingFace)",
            "huggingFace is required when source is HuggingFace: name the repo",
        ),
        Rule(
            "has(self.http) == (self.source == 'HTTP') && has(self.s3) == (self.source == 'S3') && "
            "has(self.oci) == (self.source == 'OCI') && has(self.ngc) == (self.source == 'NGC') && "
            "has(self.persistentVolumeClaim) == (self.source == 'PersistentVolumeClaim') && "
            "(!has(self.huggingFace) || self.source == 'HuggingFace')",
            "exactly one of huggingFace, http, s3, oci, ngc and persistentVolumeClaim must be set: "
            "the one that source names",
        ),
    )

    source: Annotated[CacheSource, about("Source of the weights.")]
    hugging_face: Annotated[HuggingFace, about("The repository on the Hugging Face hub.")] | None = None
    http: Annotated[HTTP, about("Files on web servers, each with a checksum.")] | None = None
    s3: Annotated[S3, about("The objects in a bucket.")] | None = None
    oci: Annotated[OCI, about("The artifact in an OCI registry.")] | None = None
    ngc: Annotated[NGC, about("The version of a model in the NVIDIA NGC registry.")] | None = None
    persistent_volume_claim: (
        Annotated[ClaimedVolume, about("The volume to copy the weights from.")] | None
    ) = None
    cluster_selector: (
        Annotated[LabelSelector, about("Labels of the clusters to stage on. Default: every cluster.")] | None
    ) = None
    regions: Annotated[
        tuple[Region, ...],
        about(
            "Regions in which weights can be staged, by the label modelplane.ai/region of "
            "clusters. Default: the regions of the ModelDeployments that use the cache, or every "
            "region if one of them has no regions.",
            min_length=1,
            max_length=MOST_REGIONS,
            unique=True,
        ),
    ] = ()


class CacheSummary(Model):
    """Summary of the cache."""

    ready: Annotated[str, about("Clusters with the weights and matched clusters, such as 2/3.")] | None = None


class CacheCluster(Model):
    """Staging on one cluster."""

    name: Annotated[str, about("Name of the InferenceCluster.")]
    phase: Annotated[CachePhase, about("Phase of the staging.")] | None = None
    artifact: (
        Annotated[
            str, about("Hash of the staged source. If the source changes, the weights are staged again.")
        ]
        | None
    ) = None
    message: Annotated[str, about("Why the weights are not Ready on the cluster.")] | None = None


class CacheEstimate(Model):
    """Estimated size of volumes, used if the spec has no size."""

    size_gib: Annotated[
        int, about("Size of the volumes, in GiB: 10% more than the source reports.", ge=1, le=LARGEST_GIB)
    ] = field(name="sizeGiB")
    artifact: Annotated[str, about("Hash of the source of the estimate.")]
    message: Annotated[str, about("Message about the size that the source reports.")]


class ModelCacheStatus(Status):
    """Progress of the staging."""

    summary: Annotated[CacheSummary, about("Summary over all matched clusters.")] | None = None
    estimate: (
        Annotated[CacheEstimate, about("Estimated size of the volumes, if sizeGiB is not set.")] | None
    ) = None
    clusters: Annotated[
        tuple[CacheCluster, ...], about("Staging on each matched cluster.", keys=("name",))
    ] = ()


class ModelCache(Model):
    """Stages the weights of a model on every matching cluster."""

    metadata: ObjectMeta
    spec: Annotated[ModelCacheSpec, about("The weights to stage, and the target clusters.")]
    status: Annotated[ModelCacheStatus, about("Progress of the staging.")] = ModelCacheStatus()
