"""A registry: accounts, requests and pushes."""
