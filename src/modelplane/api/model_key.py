"""ModelKey: an API key with which clients call the ModelServices of the fleet."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

from modelplane.api.fields.requests.key_limits import KeyLimits, RateLimitType, ServicePattern
from modelplane.api.fields.requests.pricing import MAX_AMOUNT, Budget
from modelplane.api.fields.requests.regions import MOST_REGIONS, Region
from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.schema.fields import MOMENT, about

MAX_HASHES = 4
"""Keys of one ModelKey that are valid at a time: the current one, and those that it replaces."""

MAX_SERVICES = 16
"""Entries of a ModelKey: with those of its hashes, they bound its share of what the gateway reads."""


class KeyHash(Model):
    """A key, identified by a hash."""

    sha256: Annotated[
        str,
        about(
            "SHA-256 hash of the key, in hexadecimal digits. The key itself is not stored.",
            min_length=64,
            max_length=64,
            pattern="^[0-9a-f]{64}$",
        ),
    ]
    expires: (
        Annotated[
            dt.datetime, about("Time at which the key expires. Default: the key doesn't expire."), MOMENT
        ]
        | None
    ) = None


class ModelKeySpec(KeyLimits):
    """Hashes and permissions of the key."""

    hashes: Annotated[
        tuple[KeyHash, ...],
        about(
            "Valid keys. They share the limits, so that you can rotate to a second key while the "
            "first is still valid.",
            min_length=1,
            max_length=MAX_HASHES,
            keys=("sha256",),
        ),
    ]
    services: Annotated[
        tuple[ServicePattern, ...],
        about(
            "ModelServices that the key can use, if the grant of the namespace also includes "
            "them. Default: the ModelServices in the namespace.",
            min_length=1,
            max_length=MAX_SERVICES,
            unique=True,
        ),
    ] = ()
    regions: Annotated[
        tuple[Region, ...],
        about(
            "Regions that can serve requests with the key, if the grant of the namespace and the "
            "region rules of ModelDeployments also allow them. An endpoint without a region "
            "belongs to no region. Default: every allowed region.",
            min_length=1,
            max_length=MOST_REGIONS,
            unique=True,
        ),
    ] = ()
    rate_limit_type: (
        Annotated[
            RateLimitType,
            about(
                "Where requestsPerMinute and tokensPerMinute are counted. Local: each gateway enforces an "
                "equal part of the limits. Global: the rateLimitService of the InferenceGateway counts for "
                "all gateways together. Default: Local, unless the grant of the namespace allows only Global."
            ),
        ]
        | None
    ) = None
    blocked: Annotated[bool, about("Whether to refuse the key.")] = False
    budget: (
        Annotated[
            Budget,
            about(
                "Daily and monthly budget of the key, in UTC. Default: limited only by the budget of "
                "the namespace."
            ),
        ]
        | None
    ) = None


class BudgetLimit(StrEnum):
    """A limit of a budget."""

    TOKENS_PER_DAY = "tokensPerDay"
    TOKENS_PER_MONTH = "tokensPerMonth"
    COST_PER_DAY = "costPerDay"
    COST_PER_MONTH = "costPerMonth"


class BudgetScope(StrEnum):
    """Scope of a budget."""

    KEY = "Key"
    NAMESPACE = "Namespace"


class UsedBudget(Model):
    """The part of a limit that is used."""

    of: Annotated[
        BudgetScope, about("Scope of the budget. Key: this key. Namespace: all keys in the namespace.")
    ]
    limit: Annotated[BudgetLimit, about("Name of the limit.")]
    amount: Annotated[str, about("Value of the limit.", max_length=MAX_AMOUNT)]
    used_percent: Annotated[
        int, about("Used percentage of the limit, rounded down. At 100, requests are refused.", ge=0, le=100)
    ]


class SeenHash(Model):
    """Time at which a hash was first seen in the key."""

    sha256: Annotated[str, about("The hash.", min_length=64, max_length=64, pattern="^[0-9a-f]{64}$")]
    first_seen: Annotated[dt.datetime, about("Time at which the hash was first seen in the key."), MOMENT]
    refused: Annotated[
        bool,
        about("Whether the hash belongs to a key in another namespace. This key can never use such a hash."),
    ] = False


class ModelKeyStatus(Status):
    """Conditions of the key, usage of budgets, and first observed hashes."""

    hashes: Annotated[
        tuple[SeenHash, ...],
        about(
            "Hashes of the key, with the time at which they were first seen. If several keys "
            "have the same hash, it belongs to the first.",
            max_length=MAX_HASHES,
            keys=("sha256",),
        ),
    ] = ()
    budgets: Annotated[
        tuple[UsedBudget, ...],
        about("Usage of the budgets of the key and the namespace.", max_length=8, keys=("of", "limit")),
    ] = ()


class ModelKey(Model):
    """An API key of a namespace. A key can only restrict the permissions that the InferenceGateway grants
    to the namespace."""

    metadata: ObjectMeta
    spec: Annotated[ModelKeySpec, about("Hashes and permissions of the key.")]
    status: Annotated[ModelKeyStatus, about("Conditions of the key, and usage of budgets.")] = (
        ModelKeyStatus()
    )
