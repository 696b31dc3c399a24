"""Names that exist on fleets of release 0.9 stay."""

from contract.frozen import frozen, present


def test_every_name_that_a_fleet_may_have_is_still_there():
    lost = frozen() - present()
    assert not lost, (
        f"{sorted(lost)} is gone: Crossplane deletes a child whose key changes, and controllers lose sight "
        "of one whose label changes. Keep it, or delete its line in frozen_names.txt if no fleet can have it"
    )


def test_a_name_of_each_sort_is_recorded():
    known = frozen()
    assert {
        "metric modelplane_leader",
        "key modelplane.ai/remote-objects",
        "name modelplane-controller",
    } <= known
    assert any(line.startswith("child model_replica HTTPRoute model-route ") for line in known)
