"""Keys of labels and annotations of pods that a cluster refuses or accepts."""

from typing import Annotated

from modelplane.api.fields import about
from modelplane.api.meta import Model

KeyPrefix = Annotated[
    str,
    about(
        "Beginning of a key, such as example.com/.",
        min_length=1,
        max_length=317,
        pattern="^[a-z0-9][A-Za-z0-9._/-]*$",
    ),
]


class PodKeys(Model):
    """Keys of labels and annotations of pods, by their prefix."""

    refuse: Annotated[
        tuple[KeyPrefix, ...],
        about("Prefixes that are refused beside those that every cluster refuses.", max_length=64),
    ] = ()
    accept: Annotated[
        tuple[KeyPrefix, ...],
        about("Prefixes that are accepted here, of those that every cluster refuses.", max_length=64),
    ] = ()
