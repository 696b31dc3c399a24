"""Budgets: what may be used in a day or a month of UTC, in tokens or in the currency of the prices."""

from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

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
