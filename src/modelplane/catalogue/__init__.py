"""The catalogue: InferenceClasses for known cards and machine types.

The data are ``cards.yaml`` and ``machines.yaml``, whose schema is ``entries``. A class is derived from both
(``inference_classes``).
"""
