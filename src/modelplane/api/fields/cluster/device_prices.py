"""Prices of devices: what an hour of one costs, as the platform team states it."""

from typing import Annotated

from modelplane.api import money
from modelplane.api.fields.requests.budgets import AMOUNT, MAX_AMOUNT
from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

Currency = Annotated[str, about("Currency, by ISO 4217, such as USD.", max_length=3, pattern="^[A-Z]{3}$")]


class DevicePrice(Model):
    """The price of one device of an entry of the class."""

    name: Annotated[str, about("Name of the entry under devices.", min_length=1, max_length=63)]
    per_hour: Annotated[
        str,
        about('Price of one device for an hour, such as "2.49".', max_length=MAX_AMOUNT, pattern=AMOUNT),
    ]
    spot_per_hour: (
        Annotated[
            str,
            about("The same in a pool with spot. Absent: perHour.", max_length=MAX_AMOUNT, pattern=AMOUNT),
        ]
        | None
    ) = None


class DevicePricing(Model):
    """Prices of the devices of a node. A device without a price costs nothing."""

    currency: Currency
    devices: Annotated[
        tuple[DevicePrice, ...],
        about("Prices of devices.", min_length=1, max_length=16, keys=("name",)),
    ]

    def find_price_per_hour(self, device: str, *, spot: bool = False) -> int | None:
        """Return the price of a device for an hour, in billionths; None if it has none."""
        for priced in self.devices:
            if priced.name == device:
                return money.parse_amount((priced.spot_per_hour if spot else None) or priced.per_hour)
        return None
