"""Keys of labels and annotations that pods of teams may have on a cluster.

Webhooks, container runtimes, networks and schedulers of a cluster act on labels and annotations of pods: they
add containers, credentials, networks and devices. Their keys cannot be enumerated, so the accepted keys are.
"""

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

TEAMS_DOMAIN: Final = "teams.modelplane.ai/"
"""Prefix of the keys that are a team's own, on every cluster."""

ACCEPTED_KEYS: Final = (
    # Plain keys that describe a pod.
    "app",
    "application",
    "billing",
    "commit",
    "component",
    "contact",
    "cost-center",
    "cost-centre",
    "department",
    "description",
    "env",
    "environment",
    "experiment",
    "maintainer",
    "model",
    "name",
    "owner",
    "product",
    "purpose",
    "release",
    "service",
    "stage",
    "team",
    "tier",
    "track",
    "version",
    "app.kubernetes.io/component",
    "app.kubernetes.io/created-by",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    # The default container of `kubectl exec` and `kubectl logs`.
    "kubectl.kubernetes.io/default-container",
    # Where Prometheus scrapes the pod itself.
    "prometheus.io/path",
    "prometheus.io/port",
    "prometheus.io/scheme",
    "prometheus.io/scrape",
)
"""Keys that every cluster accepts."""

ACCEPTED_PREFIXES: Final = (
    TEAMS_DOMAIN,
    # Reserved for documentation (RFC 2606), so nothing acts on it.
    "example.com/",
)
"""Prefixes of further keys that every cluster accepts."""

REFUSED_VARIABLES: Final = frozenset(
    {
        "AMD_VISIBLE_DEVICES",
        "ASCEND_RUNTIME_OPTIONS",
        "ASCEND_VISIBLE_DEVICES",
        "HABANA_VISIBLE_DEVICES",
        "MTHREADS_VISIBLE_DEVICES",
        "NVIDIA_GDRCOPY",
        "NVIDIA_GDS",
        "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_MOFED",
        "NVIDIA_NVSWITCH",
        "NVIDIA_VISIBLE_DEVICES",
    }
)
"""Variables by which container runtimes give a container devices."""

KeyPrefix = Annotated[
    str,
    about(
        "Prefix of a key, such as example.com/.",
        min_length=1,
        max_length=317,
        pattern="^[a-z0-9][A-Za-z0-9._/-]*$",
    ),
]


class PodKeys(Model):
    """Allowed label and annotation keys of pods, by prefix."""

    refuse: Annotated[
        tuple[KeyPrefix, ...],
        about(
            "Prefixes to refuse on this cluster, even if accept or the defaults allow them.", max_length=64
        ),
    ] = ()
    accept: Annotated[
        tuple[KeyPrefix, ...],
        about("Prefixes to accept on this cluster, in addition to the defaults.", max_length=64),
    ] = ()


class PodPart(NamedTuple):
    """A label or annotation of a team's pods, or a variable."""

    what: str
    key: str

    def __str__(self) -> str:
        """The kind of the entry and its key, as messages name them."""
        return f'{self.what} "{self.key}"'


VARIABLE: Final = "variable"


class KeyRules(msgspec.Struct, frozen=True):
    """Prefixes that a cluster accepts or refuses, and those of the platform team's own scheduler of pods."""

    accept: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()

    def accepts(self, key: str) -> bool:
        """Return True if a label or annotation of a team's pods may have a key."""
        if key.startswith(self.refuse):
            return False
        if key.startswith(self.accept):
            return True
        return is_accepted(key) and not key.startswith(self.scheduler)


DEFAULT_RULES: Final = KeyRules()
"""The rules of a cluster without settings of its own."""


def is_accepted(key: str) -> bool:
    """Return True if every cluster accepts a key, unless it refuses the key itself."""
    return key in ACCEPTED_KEYS or key.startswith(ACCEPTED_PREFIXES)


def find_refused(parts: Iterable[PodPart], rules: KeyRules) -> tuple[PodPart, ...]:
    """Return the parts of pods that a cluster with some rules refuses."""
    return tuple(
        part
        for part in parts
        if (part.key in REFUSED_VARIABLES if part.what == VARIABLE else not rules.accepts(part.key))
    )


def list_prefixes(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the prefix of each key, sorted; a key without one is a prefix itself."""
    prefixes = set()
    for key in keys:
        domain, slash, _ = key.partition("/")
        prefixes.add(f"{domain}/" if slash else key)
    return tuple(sorted(prefixes))
