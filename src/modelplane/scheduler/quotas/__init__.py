"""Quotas: the devices that the namespaces of a team may hold together."""
