"""ModelCache: the weights of a model, staged on clusters before engines need them."""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from modelplane.api.fields import DNS_SUBDOMAIN, SECRET_KEY, Rule, about
from modelplane.api.meta import LabelSelector, Model, ObjectMeta, Status


class CacheSource(StrEnum):
    """Source of weights."""

    HUGGING_FACE = "HuggingFace"
    HTTP = "HTTP"
    S3 = "S3"
    OCI = "OCI"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"


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


LARGEST_GIB = 100_000

SizeGiB = (
    Annotated[
        int,
        about(
            "Size of the volume on each cluster, in GiB. Absent: an estimate, from the sizes that the source "
            "reports.",
            ge=1,
            le=LARGEST_GIB,
        ),
    ]
    | None
)

_FILE = r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)*$"
_HOST = r"https?://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][-A-Za-z0-9.]*)(:[0-9]{1,5})?"


class HuggingFace(Model):
    """A repository of the Hugging Face hub."""

    __rules__ = (
        Rule(
            "!has(self.authSecret) || !has(self.endpoint) || self.endpoint.startsWith('https://')",
            "authSecret needs an endpoint with https: a token is not sent in clear text",
        ),
    )

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
    endpoint: (
        Annotated[
            str,
            about(
                "Address of a mirror of the hub, which also gets the token. Absent: the hub itself. Another "
                "address stages nothing anew.",
                min_length=1,
                max_length=255,
                pattern=rf"^{_HOST}$",
            ),
        ]
        | None
    ) = None
    auth_secret: Annotated[AuthSecret, about("Token for repositories that are not public.")] | None = None
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class BearerSecret(Model):
    """The Secret that holds a bearer token."""

    name: Annotated[
        str,
        about("Name of a Secret in this namespace.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
    ]
    key: Annotated[
        str, about("Key of the token in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)
    ] = "token"


class HTTPFile(Model):
    """A file of a web server."""

    path: Annotated[
        str, about("Path of the file in the volume.", min_length=1, max_length=255, pattern=_FILE)
    ]
    url: Annotated[
        str,
        about(
            "Address of the file, with other characters percent-encoded. Another address of the same content "
            "stages nothing anew.",
            min_length=1,
            max_length=1024,
            pattern=rf"^{_HOST}/[-A-Za-z0-9._~:/?@!&'()*+,;=%\[\]]*$",
        ),
    ]
    sha256: Annotated[
        str,
        about(
            "SHA-256 of the content, as sha256sum prints it.",
            min_length=64,
            max_length=64,
            pattern="^[0-9a-f]{64}$",
        ),
    ]


class HTTP(Model):
    """Files of web servers."""

    __rules__ = (
        Rule(
            "!has(self.authSecret) || self.files.all(file, file.url.startsWith('https://'))",
            "authSecret needs URLs with https: a token is not sent in clear text",
        ),
    )

    files: Annotated[
        tuple[HTTPFile, ...], about("Files to stage.", keys=("path",), min_length=1, max_length=64)
    ]
    auth_secret: (
        Annotated[BearerSecret, about("Token that is sent to the host of each URL, and to no other.")] | None
    ) = None
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class S3Secret(Model):
    """The Secret that holds credentials for S3."""

    name: Annotated[
        str,
        about(
            "Name of a Secret in this namespace, with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "and AWS_SESSION_TOKEN if they are temporary.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]


class S3(Model):
    """Objects of a bucket of Amazon S3, or of a service with the same API."""

    bucket: Annotated[
        str,
        about("Bucket.", min_length=3, max_length=63, pattern=r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$"),
    ]
    prefix: (
        Annotated[
            str,
            about(
                "Folder in the bucket. Absent: the whole bucket.",
                min_length=1,
                max_length=512,
                pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.=+]*(/[A-Za-z0-9_][-A-Za-z0-9_.=+]*)*/?$",
            ),
        ]
        | None
    ) = None
    region: Annotated[
        str, about("Region of the bucket.", min_length=1, max_length=63, pattern=r"^[a-z0-9][-a-z0-9]*$")
    ] = "us-east-1"
    endpoint: (
        Annotated[
            str,
            about(
                "Address of the service. Absent: Amazon S3 in the region.",
                min_length=1,
                max_length=255,
                pattern=rf"^{_HOST}/?$",
            ),
        ]
        | None
    ) = None
    auth_secret: Annotated[S3Secret, about("Credentials. Absent: the bucket is read without any.")] | None = (
        None
    )
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class RegistrySecret(Model):
    """The Secret that holds an account for a registry."""

    name: Annotated[
        str,
        about(
            "Name of a Secret in this namespace, of type kubernetes.io/dockerconfigjson.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    key: Annotated[
        str,
        about("Key of the configuration in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY),
    ] = ".dockerconfigjson"


class OCI(Model):
    """An artifact in an OCI registry."""

    __rules__ = (
        Rule(
            "!has(self.authSecret) || !self.plainHTTP",
            "authSecret needs HTTPS: remove plainHTTP, because a password is not sent in clear text",
        ),
    )

    reference: Annotated[
        str,
        about(
            "Reference with a registry, such as ghcr.io/team/model:v1. A digest pins the content.",
            min_length=1,
            max_length=512,
            pattern=(
                r"^[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+"
                r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@sha256:[0-9a-f]{64})?$"
            ),
        ),
    ]
    plain_http: Annotated[bool, about("Whether the registry has no HTTPS.")] = field(
        name="plainHTTP", default=False
    )
    auth_secret: Annotated[RegistrySecret, about("Account for the registry.")] | None = None
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class ClaimedVolume(Model):
    """A volume that has the weights already, on each cluster."""

    claim_name: Annotated[
        str,
        about(
            "Name of a PersistentVolumeClaim in this namespace of each cluster.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    path: (
        Annotated[
            str,
            about("Folder of the volume. Absent: all of it.", min_length=1, max_length=512, pattern=_FILE),
        ]
        | None
    ) = None
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class ModelCacheSpec(Model):
    """The weights to stage, and the clusters to stage them on."""

    __rules__ = (
        Rule(
            "self.source != 'HuggingFace' || has(self.huggingFace)",
            "huggingFace is required when source is HuggingFace: name the repo",
        ),
        Rule(
            "has(self.http) == (self.source == 'HTTP') && has(self.s3) == (self.source == 'S3') && "
            "has(self.oci) == (self.source == 'OCI') && "
            "has(self.persistentVolumeClaim) == (self.source == 'PersistentVolumeClaim') && "
            "(!has(self.huggingFace) || self.source == 'HuggingFace')",
            "exactly one of huggingFace, http, s3, oci and persistentVolumeClaim must be set: "
            "the one that source names",
        ),
    )

    source: Annotated[CacheSource, about("Source of the weights.")]
    hugging_face: Annotated[HuggingFace, about("The repository on the Hugging Face hub.")] | None = None
    http: Annotated[HTTP, about("Files of web servers, each with its checksum.")] | None = None
    s3: Annotated[S3, about("The objects of a bucket.")] | None = None
    oci: Annotated[OCI, about("The artifact in a registry.")] | None = None
    persistent_volume_claim: (
        Annotated[ClaimedVolume, about("The volume to copy the weights from.")] | None
    ) = None
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


class CacheEstimate(Model):
    """The size that volumes get if spec has none."""

    size_gib: Annotated[
        int, about("Size of the volumes, in GiB: a tenth more than the source reports.", ge=1, le=LARGEST_GIB)
    ] = field(name="sizeGiB")
    artifact: Annotated[str, about("Hash of the source that it is for.")]
    message: Annotated[str, about("What the source reports.")]


class ModelCacheStatus(Status):
    """Progress of the staging."""

    summary: Annotated[CacheSummary, about("Summary over all matched clusters.")] | None = None
    estimate: Annotated[CacheEstimate, about("Size of the volumes, if sizeGiB is absent.")] | None = None
    clusters: Annotated[
        tuple[CacheCluster, ...], about("Staging on each matched cluster.", keys=("name",))
    ] = ()


class ModelCache(Model):
    """The weights of a model, staged on every matching cluster."""

    metadata: ObjectMeta
    spec: Annotated[ModelCacheSpec, about("The weights to stage, and the clusters to stage them on.")]
    status: Annotated[ModelCacheStatus, about("Progress of the staging.")] = ModelCacheStatus()
