"""The dashboard: a read-only view of a fleet, as a web page on loopback and as a table in a terminal.

``fleet_view`` keeps a copy of the fleet's objects, ``snapshot`` turns it into rows, ``pages`` and ``server``
show the rows. Explanations are those of ``modelplane explain``. Nothing here writes to a control plane.
"""
