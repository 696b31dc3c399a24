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
    """Limits of a day and of a month. When one of the limits is reached, requests are refused."""

    tokens_per_day: (
        Annotated[int, about("Tokens a day, of prompts and answers. Absent: no limit.", ge=1, le=MOST_TOKENS)]
        | None
    ) = None
    tokens_per_month: (
        Annotated[
            int, about("Tokens a month, of prompts and answers. Absent: no limit.", ge=1, le=MOST_TOKENS)
        ]
        | None
    ) = None
    cost_per_day: (
        Annotated[
            str,
            about(
                'Money a day, in the currency of the prices, such as "12.50". Absent: no limit.',
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
                'Money a month, in the currency of the prices, such as "250". Absent: no limit.',
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
        "Host of a ModelEndpoint's URL, with the port unless it is that of the scheme.",
        min_length=1,
        max_length=260,
        pattern=r"^[a-z0-9_.:\[\]-]+$",
    ),
]

_PriceModel = Annotated[
    str,
    about("Name of the model, as the endpoint gets it.", min_length=1, max_length=256, pattern="^[!-~]+$"),
]


class Price(Model):
    """A price of tokens, and the requests that it is for: all, where no field says less."""

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
            "For requests to these hosts, such as those of a provider. Absent: to every endpoint.",
            min_length=1,
            max_length=16,
            unique=True,
        ),
    ] = ()
    models: Annotated[
        tuple[_PriceModel, ...],
        about(
            "For requests for these models: spec.model of the ModelEndpoint. Without it, the highest price "
            "that may apply counts. Absent: for every model.",
            min_length=1,
            max_length=64,
            unique=True,
        ),
    ] = ()
    services: Annotated[
        tuple[ServicePattern, ...],
        about(
            "For requests to these ModelServices. Absent: to every one.",
            min_length=1,
            max_length=64,
            unique=True,
        ),
    ] = ()
    prompt_per_million: Annotated[
        str,
        about('Price of a million tokens of prompts, such as "0.15".', max_length=MAX_AMOUNT, pattern=AMOUNT),
    ]
    completion_per_million: Annotated[
        str,
        about('Price of a million tokens of answers, such as "0.60".', max_length=MAX_AMOUNT, pattern=AMOUNT),
    ]


class Pricing(Model):
    """Prices of tokens, and their currency."""

    currency: Annotated[
        str,
        about(
            "Currency of prices and budgets, by ISO 4217, such as USD.", max_length=3, pattern="^[A-Z]{3}$"
        ),
    ]
    prices: Annotated[
        tuple[Price, ...],
        about(
            "Prices. A request has the first one that is for it. Without any, it costs nothing.",
            min_length=1,
            max_length=MAX_PRICES,
            keys=("name",),
        ),
    ]
