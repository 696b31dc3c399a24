"""ModelCache: the weights of a model, staged on clusters before engines need them."""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from modelplane.api.fields import DNS_SUBDOMAIN, SECRET_KEY, Rule, about
from modelplane.api.meta import LabelSelector, Model, ObjectMeta, Status


class CacheSource(StrEnum):
    """Where weights come from."""

    HUGGING_FACE = "HuggingFace"


class CachePhase(StrEnum):
    """How far one cluster is."""

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
    auth_secret: Annotated[AuthSecret, about("Token for repositories that are not public.")] | None = None
    size_gib: Annotated[int, about("Size of the volume on each cluster, in GiB.", ge=1, le=100_000)] = field(
        name="sizeGiB"
    )


class ModelCacheSpec(Model):
    """What to stage, and where."""

    __rules__ = (
        Rule(
            "self.source != 'HuggingFace' || has(self.huggingFace)",
            "huggingFace is required when source is HuggingFace: name the repo and sizeGiB",
        ),
    )

    source: Annotated[CacheSource, about("Where the weights come from.")]
    hugging_face: Annotated[HuggingFace, about("The repository on the Hugging Face hub.")] | None = None
    cluster_selector: (
        Annotated[LabelSelector, about("Labels of the clusters to stage on. Absent: every cluster.")] | None
    ) = None


class CacheSummary(Model):
    """How far the cache is as a whole."""

    ready: Annotated[str, about("Clusters that have the weights, of those matched, such as 2/3.")] | None = (
        None
    )


class CacheCluster(Model):
    """How far one cluster is."""

    name: Annotated[str, about("Name of the InferenceCluster.")]
    phase: Annotated[CachePhase, about("How far it is.")] | None = None
    artifact: (
        Annotated[str, about("Hash of the source whose weights are there; another one is staged anew.")]
        | None
    ) = None
    message: Annotated[str, about("Why it is no further.")] | None = None


class ModelCacheStatus(Status):
    """How far staging is."""

    summary: Annotated[CacheSummary, about("How far the cache is as a whole.")] | None = None
    clusters: Annotated[
        tuple[CacheCluster, ...], about("How far each matched cluster is.", keys=("name",))
    ] = ()


class ModelCache(Model):
    """The weights of a model, staged on every matching cluster."""

    metadata: ObjectMeta
    spec: Annotated[ModelCacheSpec, about("What to stage, and where.")]
    status: Annotated[ModelCacheStatus, about("How far staging is.")] = ModelCacheStatus()
