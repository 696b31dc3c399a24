"""ModelCache: the weights of a model, staged on clusters before engines need them."""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from modelplane.api.fields import DNS_SUBDOMAIN, SECRET_KEY, Rule, about
from modelplane.api.meta import LabelSelector, Model, ObjectMeta, Status


class CacheSource(StrEnum):
    """Source of weights."""

    HUGGING_FACE = "HuggingFace"


class CacheFiles(StrEnum):
    """Files of a repository to stage."""

    ALL = "All"
    SAFETENSORS = "Safetensors"


class CachePhase(StrEnum):
    """Staging on one cluster."""

    PENDING = "Pending"
    HYDRATING = "Hydrating"
    READY = "Ready"
    FAILED = "Failed"


class AuthSecret(Model):
    """The Secret that holds a token."""

    name: Annotated[
        str,
        about("Name of a Secret in this namespace.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
    ]
    key: Annotated[
        str, about("Key of the token in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)
    ] = "HF_TOKEN"


class HuggingFace(Model):
    """A repository of the Hugging Face hub."""

    repo: Annotated[
        str,
        about(
            "Repository, such as Qwen/Qwen3-8B.",
            min_length=1,
            max_length=193,
            pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)?$",
        ),
    ]
    revision: (
        Annotated[
            str,
            about(
                "Branch, tag or commit. Absent: the repository's default.",
                min_length=1,
                max_length=255,
                pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_./]*$",
            ),
        ]
        | None
    ) = None
    files: (
        Annotated[
            CacheFiles,
            about(
                "Files to stage. Safetensors leaves out code and weights in formats that can carry code, "
                "such as pickles. Absent: All."
            ),
        ]
        | None
    ) = None
    auth_secret: Annotated[AuthSecret, about("Token for repositories that are not public.")] | None = None
    size_gib: Annotated[int, about("Size of the volume on each cluster, in GiB.", ge=1, le=100_000)] = field(
        name="sizeGiB"
    )


class ModelCacheSpec(Model):
    """The weights to stage, and the clusters to stage them on."""

    __rules__ = (
        Rule(
            "self.source != 'HuggingFace' || has(self.huggingFace)",
            "huggingFace is required when source is HuggingFace: name the repo and sizeGiB",
        ),
    )

    source: Annotated[CacheSource, about("Source of the weights.")]
    hugging_face: Annotated[HuggingFace, about("The repository on the Hugging Face hub.")] | None = None
    cluster_selector: (
        Annotated[LabelSelector, about("Labels of the clusters to stage on. Absent: every cluster.")] | None
    ) = None


class CacheSummary(Model):
    """Summary of the cache."""

    ready: Annotated[str, about("Clusters that have the weights, of those matched, such as 2/3.")] | None = (
        None
    )


class CacheCluster(Model):
    """Staging on one cluster."""

    name: Annotated[str, about("Name of the InferenceCluster.")]
    phase: Annotated[CachePhase, about("Phase of the staging.")] | None = None
    artifact: Annotated[str, about("Hash of the staged source; a changed source is staged anew.")] | None = (
        None
    )
    message: Annotated[str, about("The reason why the cluster is not Ready.")] | None = None


class ModelCacheStatus(Status):
    """Progress of the staging."""

    summary: Annotated[CacheSummary, about("Summary over all matched clusters.")] | None = None
    clusters: Annotated[
        tuple[CacheCluster, ...], about("Staging on each matched cluster.", keys=("name",))
    ] = ()


class ModelCache(Model):
    """The weights of a model, staged on every matching cluster."""

    metadata: ObjectMeta
    spec: Annotated[ModelCacheSpec, about("The weights to stage, and the clusters to stage them on.")]
    status: Annotated[ModelCacheStatus, about("Progress of the staging.")] = ModelCacheStatus()
