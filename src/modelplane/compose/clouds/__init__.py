"""Clouds: the managed resources of which the cluster of a cloud consists."""
