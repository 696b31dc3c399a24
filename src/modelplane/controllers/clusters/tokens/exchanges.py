"""Exchanges: the clouds whose credentials the controllers can exchange for a token, one row each.

A cloud's library is loaded with its first credential.
"""

from collections.abc import Mapping
from typing import Final

from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.controllers.clusters.tokens import aws, google, nebius
from modelplane.controllers.clusters.tokens.cloud_identities import Exchange

EXCHANGES: Final[Mapping[IdentityType, Exchange]] = {
    IdentityType.GOOGLE: google.exchange,
    IdentityType.AWS: aws.exchange,
    IdentityType.NEBIUS: nebius.exchange,
}

FOR_ONE_CLUSTER: Final = frozenset({IdentityType.AWS})
"""The clouds whose tokens are for one cluster."""
