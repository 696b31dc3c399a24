"""Sources of a ModelCache: where weights come from."""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, SECRET_KEY, Rule, about


class CacheFiles(StrEnum):
    """Files of a repository to stage."""

    ALL = "All"
    SAFETENSORS = "Safetensors"


SecretName = Annotated[
    str, about("Name of a Secret in this namespace.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)
]


class AuthSecret(Model):
    """The Secret that holds a token."""

    name: SecretName
    key: Annotated[
        str, about("Key of the token in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)
    ] = "HF_TOKEN"


LARGEST_GIB = 100_000

SizeGiB = (
    Annotated[
        int,
        about(
            "Size of the volume on each cluster, in GiB. Default: an estimate from the file "
            "sizes that the source reports.",
            ge=1,
            le=LARGEST_GIB,
        ),
    ]
    | None
)

_FILE = r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)*$"
_NGC_NAME = r"^[A-Za-z0-9][-A-Za-z0-9_.]*$"
_HOST = r"https?://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][-A-Za-z0-9.]*)(:[0-9]{1,5})?"

Mirrors = Annotated[
    tuple[
        Annotated[
            str,
            about(
                "URL of the folder that contains the files.",
                min_length=1,
                max_length=255,
                pattern=rf"^{_HOST}(/[-A-Za-z0-9._~]+)*/?$",
            ),
        ],
        ...,
    ],
    about(
        "Web servers that provide the files under the same paths as in the volume, such as a "
        "server in front of the cache of another cluster. Each file is read from the first "
        "mirror where the SHA-256 matches the source, otherwise from the source. Mirrors "
        "receive no credentials. Changing the mirrors doesn't stage the files again.",
        max_length=4,
        atomic=True,
    ),
]


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
            "Name of the repository, such as Qwen/Qwen3-8B.",
            min_length=1,
            max_length=193,
            pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)?$",
        ),
    ]
    revision: (
        Annotated[
            str,
            about(
                "Branch, tag, or commit. Default: the default branch of the repository.",
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
                "Files to stage. All: every file. Safetensors: without code, and without weights in "
                "formats that can contain code, such as pickle files. Default: All."
            ),
        ]
        | None
    ) = None
    endpoint: (
        Annotated[
            str,
            about(
                "URL of a mirror of the hub. The mirror also receives the token. Default: the hub "
                "itself. Changing the URL doesn't stage the files again.",
                min_length=1,
                max_length=255,
                pattern=rf"^{_HOST}$",
            ),
        ]
        | None
    ) = None
    auth_secret: Annotated[AuthSecret, about("Token for private or gated repositories.")] | None = None
    mirrors: Mirrors = ()
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class BearerSecret(Model):
    """The Secret that holds a bearer token."""

    name: SecretName
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
            "URL of the file, percent-encoded. Changing the URL doesn't stage the file again if "
            "the content is the same.",
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
        Annotated[
            BearerSecret, about("Token to send to the host of each URL. No other host receives the token.")
        ]
        | None
    ) = None
    mirrors: Mirrors = ()
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
    """Objects in an Amazon S3 bucket, or in a service with a compatible API."""

    bucket: Annotated[
        str,
        about("Bucket.", min_length=3, max_length=63, pattern=r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$"),
    ]
    prefix: (
        Annotated[
            str,
            about(
                "Folder in the bucket. Default: the whole bucket.",
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
                "URL of the service. Default: Amazon S3 in the region.",
                min_length=1,
                max_length=255,
                pattern=rf"^{_HOST}/?$",
            ),
        ]
        | None
    ) = None
    auth_secret: (
        Annotated[
            S3Secret, about("Credentials for the bucket. Default: read the bucket without credentials.")
        ]
        | None
    ) = None
    mirrors: Mirrors = ()
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
            "!has(self.authSecret) || !has(self.plainHTTP) || !self.plainHTTP",
            "authSecret needs HTTPS: remove plainHTTP, because a password is not sent in clear text",
        ),
    )

    reference: Annotated[
        str,
        about(
            "Reference of the artifact, including the registry, such as ghcr.io/team/model:v1. "
            "Use a digest to pin the content.",
            min_length=1,
            max_length=512,
            pattern=(
                r"^[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+"
                r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@sha256:[0-9a-f]{64})?$"
            ),
        ),
    ]
    plain_http: Annotated[bool, about("Whether to use plain HTTP, for a registry without HTTPS.")] = field(
        name="plainHTTP", default=False
    )
    auth_secret: Annotated[RegistrySecret, about("Account for the registry.")] | None = None
    mirrors: Mirrors = ()
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class NGCSecret(Model):
    """The Secret that holds an API key of NGC."""

    name: SecretName
    key: Annotated[
        str, about("Key of the API key in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)
    ] = "NGC_API_KEY"


class NGC(Model):
    """A version of a model in the registry of NVIDIA NGC."""

    org: Annotated[
        str, about("NGC organization, such as nim.", min_length=1, max_length=64, pattern=_NGC_NAME)
    ]
    team: (
        Annotated[
            str,
            about(
                "NGC team, such as meta. Default: the model belongs to the organization itself.",
                min_length=1,
                max_length=64,
                pattern=_NGC_NAME,
            ),
        ]
        | None
    ) = None
    model: Annotated[
        str,
        about(
            "Name of the model, such as llama-3_1-8b-instruct.",
            min_length=1,
            max_length=128,
            pattern=_NGC_NAME,
        ),
    ]
    version: Annotated[
        str,
        about(
            "Version of the model.", min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.+]*$"
        ),
    ]
    auth_secret: Annotated[NGCSecret, about("API key. Default: read the files as a guest.")] | None = None
    mirrors: Mirrors = ()
    size_gib: SizeGiB = field(name="sizeGiB", default=None)


class ClaimedVolume(Model):
    """A volume on each cluster that already contains the weights."""

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
            about(
                "Folder in the volume. Default: the whole volume.",
                min_length=1,
                max_length=512,
                pattern=_FILE,
            ),
        ]
        | None
    ) = None
    size_gib: SizeGiB = field(name="sizeGiB", default=None)
