"""The serving stack of a cluster: a table of components, composed in the order of their needs."""
