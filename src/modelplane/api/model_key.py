"""ModelKey: an API key with which clients call the ModelServices of the fleet."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from modelplane.api.fields.requests.key_limits import KeyLimits, RateLimitType, ServicePattern
from modelplane.api.fields.requests.pricing import MAX_AMOUNT, Budget
from modelplane.api.fields.requests.regions import MOST_REGIONS, Region
from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.schema.fields import about

MAX_HASHES = 4
"""Keys of one ModelKey that are valid at a time: the current one, and those that it replaces."""

MAX_SERVICES = 16
"""Entries of a ModelKey: with those of its hashes, they bound its share of what the gateway reads."""

_MOMENT = Meta(extra_json_schema={"maxLength": 35})
"""A time with nine digits of a second and a zone has 35 characters."""


class KeyHash(Model):
    """A key, by its hash."""

    sha256: Annotated[
        str,
        about(
            "SHA-256 of the key, in hexadecimal digits. The key itself is stored nowhere.",
            min_length=64,
            max_length=64,
            pattern="^[0-9a-f]{64}$",
        ),
    ]
    expires: (
        Annotated[
            dt.datetime, about("Time from which the key is refused. Absent: it does not expire."), _MOMENT
        ]
        | None
    ) = None


class ModelKeySpec(KeyLimits):
    """Hashes of the key, and what it may do."""

    hashes: Annotated[
        tuple[KeyHash, ...],
        about(
            "Keys that are valid. They share the limits, so a second one replaces the first with an overlap.",
            min_length=1,
            max_length=MAX_HASHES,
            keys=("sha256",),
        ),
    ]
    services: Annotated[
        tuple[ServicePattern, ...],
        about(
            "ModelServices that the key may use, as far as the namespace's grant has them too. Absent: those "
            "of its namespace.",
            min_length=1,
            max_length=MAX_SERVICES,
            unique=True,
        ),
    ] = ()
    regions: Annotated[
        tuple[Region, ...],
        about(
            "Regions to which requests with the key may go, as far as the namespace's grant and the region "
            "rules of ModelDeployments have them too. An endpoint without a region is outside every region. "
            "Absent: every region that these allow.",
            min_length=1,
            max_length=MOST_REGIONS,
            unique=True,
        ),
    ] = ()
    rate_limit_type: (
        Annotated[
            RateLimitType,
            about(
                "Counters of requestsPerMinute and tokensPerMinute. Local: each gateway has an equal part of "
                "the limits. Global: the InferenceGateway's rateLimitService counts for all gateways "
                "together. Absent: Local, unless the namespace's grant allows only Global."
            ),
        ]
        | None
    ) = None
    blocked: Annotated[bool, about("True to refuse the key.")] = False
    budget: (
        Annotated[
            Budget,
            about("What the key may use in a day and a month of UTC. Absent: what its namespace may use."),
        ]
        | None
    ) = None


class BudgetLimit(StrEnum):
    """Limits of a budget."""

    TOKENS_PER_DAY = "tokensPerDay"
    TOKENS_PER_MONTH = "tokensPerMonth"
    COST_PER_DAY = "costPerDay"
    COST_PER_MONTH = "costPerMonth"


class BudgetScope(StrEnum):
    """Users of a budget."""

    KEY = "Key"
    NAMESPACE = "Namespace"


class UsedBudget(Model):
    """The part of a limit that is used."""

    of: Annotated[BudgetScope, about("Key: the key's own budget. Namespace: that of all its keys.")]
    limit: Annotated[BudgetLimit, about("Name of the limit.")]
    amount: Annotated[str, about("Value of the limit.", max_length=MAX_AMOUNT)]
    used_percent: Annotated[
        int, about("Part that is used, rounded down. With 100, requests are refused.", ge=0, le=100)
    ]


class SeenHash(Model):
    """Time at which a hash was first seen in the key."""

    sha256: Annotated[str, about("The hash.", min_length=64, max_length=64, pattern="^[0-9a-f]{64}$")]
    first_seen: Annotated[dt.datetime, about("Time at which the hash was first seen in the key."), _MOMENT]
    refused: Annotated[
        bool, about("True if the hash belongs to a key of another namespace. The key never gets the hash.")
    ] = False


class ModelKeyStatus(Status):
    """Conditions of the key, the state of its budgets, and its hashes as they were first seen."""

    hashes: Annotated[
        tuple[SeenHash, ...],
        about(
            "Hashes of the key, as they were first seen. Of several keys with one hash, the first has it.",
            max_length=MAX_HASHES,
            keys=("sha256",),
        ),
    ] = ()
    budgets: Annotated[
        tuple[UsedBudget, ...],
        about("Budgets of the key and of its namespace.", max_length=8, keys=("of", "limit")),
    ] = ()


class ModelKey(Model):
    """An API key of a namespace. It can only narrow what the InferenceGateway grants to the namespace."""

    metadata: ObjectMeta
    spec: Annotated[ModelKeySpec, about("Hashes of the key, and what it may do.")]
    status: Annotated[ModelKeyStatus, about("Conditions of the key, and the state of its budgets.")] = (
        ModelKeyStatus()
    )
