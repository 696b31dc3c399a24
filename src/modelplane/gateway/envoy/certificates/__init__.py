"""Certificates of Envoy's connections, in files of their own."""
