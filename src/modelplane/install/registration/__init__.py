"""Registration of a cluster that exists: look at it, propose manifests, apply them.

`looking` reads the cluster, and `observed` bounds what it answers. `devices`, `known`, `hardware`, `stack`,
`proposal` and `preview` decide, without I/O. `registering` writes, with tokens by `credentials`.
"""
