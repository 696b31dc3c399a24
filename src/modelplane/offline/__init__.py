"""Commands that work from files alone, without a cluster.

One rule: the code that decides is the same as in a cluster. Manifests are checked against the
generated schemas and their CEL rules, and composed and placed by the functions that the controllers call.
"""
