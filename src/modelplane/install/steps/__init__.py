"""Steps of an installation on a cluster, of its update and its removal."""
