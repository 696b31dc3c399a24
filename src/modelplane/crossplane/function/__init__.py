"""The composition function, which Crossplane calls over gRPC.

One process serves every kind. It decodes Crossplane's request into the request of the pure composition
functions, and encodes their composition in Crossplane's terms: a child of another cluster becomes an
``Object`` of provider-kubernetes, a guard becomes a Usage, and a missing input becomes a required resource.
The function keeps no state that matters: all state is in Crossplane's objects.

Protocol: ``apiextensions.fn.proto.v1`` of Crossplane 2.
"""
