"""Commands that work from files alone, without a cluster.

One rule: the code that decides here is the code that decides there. Manifests are checked against the
generated schemas and their CEL rules, and composed and placed by the functions that the controllers call.
"""
