"""Prices of tokens, and budgets of tokens and money.

The platform sets prices, so no team sets the price that its own budget is charged.
"""

from typing import Annotated

from modelplane.api.fields.requests.key_limits import ServicePattern
from modelplane.api.meta import Model
from modelplane.api.schema.fields import Rule, about

MOST_TOKENS = 1_000_000_000_000_000
"""Maximum of tokens that a budget can name."""

AMOUNT = r"^[0-9]{1,12}(\.[0-9]{1,9})?$"
"""An amount of money. A text, because a number of JSON is a binary fraction for most programs."""

MAX_AMOUNT = 22


class Budget(Model):
    """Daily and monthly limits. When a limit is reached, requests are refused."""

    tokens_per_day: (
        Annotated[
            int,
            about(
                "Maximum number of tokens per day, in prompts and responses. Default: no limit.",
                ge=1,
                le=MOST_TOKENS,
            ),
        ]
        | None
    ) = None
    tokens_per_month: (
        Annotated[
            int,
            about(
                "Maximum number of tokens per month, in prompts and responses. Default: no limit.",
                ge=1,
                le=MOST_TOKENS,
            ),
        ]
        | None
    ) = None
    cost_per_day: (
        Annotated[
            str,
            about(
                'Maximum cost per day, in the currency of the prices, such as "12.50". Default: no limit.',
                max_length=MAX_AMOUNT,
                pattern=AMOUNT,
            ),
        ]
        | None
    ) = None
    cost_per_month: (
        Annotated[
            str,
            about(
                'Maximum cost per month, in the currency of the prices, such as "250". Default: no limit.',
                max_length=MAX_AMOUNT,
                pattern=AMOUNT,
            ),
        ]
        | None
    ) = None


MAX_PRICES = 256

_PriceHost = Annotated[
    str,
    about(
        "Host of a ModelEndpoint's URL, with the port unless it is the default port of the scheme.",
        min_length=1,
        max_length=260,
        pattern=r"^[a-z0-9_.:\[\]-]+$",
    ),
]

_PriceModel = Annotated[
    str,
    about("Name of the model in requests to the endpoint.", min_length=1, max_length=256, pattern="^[!-~]+$"),
]


class Price(Model):
    """A price of tokens, and the requests that the price applies to."""

    __rules__ = (
        Rule(
            "!has(self.models) || has(self.hosts)",
            "models needs hosts: an engine may ignore the model that a client names",
        ),
    )

    name: Annotated[
        str,
        about("Name of the price.", min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
    ]
    hosts: Annotated[
        tuple[_PriceHost, ...],
        about(
            "Hosts of endpoints that the price applies to, such as the hosts of a provider. "
            "Default: every endpoint.",
            min_length=1,
            max_length=16,
            unique=True,
        ),
    ] = ()
    models: Annotated[
        tuple[_PriceModel, ...],
        about(
            "Models that the price applies to, by spec.model of the ModelEndpoint. For an endpoint without "
            "spec.model, the highest price that could apply is used. Default: every model.",
            min_length=1,
            max_length=64,
            unique=True,
        ),
    ] = ()
    services: Annotated[
        tuple[ServicePattern, ...],
        about(
            "ModelServices that the price applies to. Default: every ModelService.",
            min_length=1,
            max_length=64,
            unique=True,
        ),
    ] = ()
    prompt_per_million: Annotated[
        str,
        about('Price of one million prompt tokens, such as "0.15".', max_length=MAX_AMOUNT, pattern=AMOUNT),
    ]
    completion_per_million: Annotated[
        str,
        about('Price of one million response tokens, such as "0.60".', max_length=MAX_AMOUNT, pattern=AMOUNT),
    ]


class Pricing(Model):
    """Prices of tokens, and the currency."""

    currency: Annotated[
        str,
        about(
            "ISO 4217 code of the currency of prices and budgets, such as USD.",
            max_length=3,
            pattern="^[A-Z]{3}$",
        ),
    ]
    prices: Annotated[
        tuple[Price, ...],
        about(
            "Prices. The first price that applies to a request is used. A request without a "
            "price costs nothing.",
            min_length=1,
            max_length=MAX_PRICES,
            keys=("name",),
        ),
    ]
