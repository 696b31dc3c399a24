"""The composition function: Crossplane asks over gRPC what an object is to be made of.

One process answers for every kind. What it is asked is turned into the request that the
pure composition functions take, and what they return into Crossplane's terms: a child of
another cluster becomes an ``Object`` of provider-kubernetes, a guard a Usage, and whatever
cannot be told is asked for as a required resource. Nothing is remembered that matters:
Crossplane's objects are all the state there is.

Protocol: ``apiextensions.fn.proto.v1`` of Crossplane 2.
"""
