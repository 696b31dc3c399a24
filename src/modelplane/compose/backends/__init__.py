"""How the engines of a replica run on their cluster, and how requests reach them."""
