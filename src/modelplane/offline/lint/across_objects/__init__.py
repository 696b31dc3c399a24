"""Rules about several objects: a module of each reads the objects of its kinds, and then warns."""
