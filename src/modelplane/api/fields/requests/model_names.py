"""Names of models that are not those of services, as clients send them in ``model``."""

from typing import Annotated

from modelplane.api.schema.fields import about

ModelName = Annotated[
    str,
    about(
        "Name of a model: letters, digits, '.', '-', '_' and ':'.",
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][-A-Za-z0-9._:]*$",
    ),
]
