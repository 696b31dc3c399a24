"""Table of the clouds that are composed: one row each."""

from modelplane.api.clouds.cluster_origin import Source
from modelplane.compose.clouds.aks import RECIPE as AKS
from modelplane.compose.clouds.eks import RECIPE as EKS
from modelplane.compose.clouds.gke import RECIPE as GKE
from modelplane.compose.clouds.kinds import Account
from modelplane.compose.clouds.nebius import RECIPE as NEBIUS
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.vultr import RECIPE as VULTR

_ROWS = (
    GKE,
    EKS,
    AKS,
    NEBIUS,
    VULTR,
)

RECIPES: dict[Source, Recipe] = {recipe.source: recipe for recipe in _ROWS}
"""The recipe of each source."""

READ_ACCOUNTS: tuple[Account, ...] = tuple(
    recipe.account for recipe in RECIPES.values() if recipe.reads_account is not None
)
"""The provider configurations that are read for a value of theirs."""
