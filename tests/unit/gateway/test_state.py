import pytest

from modelplane.gateway import configuration_state
from modelplane.gateway.configuration_state import GatewayState


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param(GatewayState(), id="nothing to say"),
        pytest.param(
            GatewayState(problem="a", without_module="b", tls_problem="c", asks_for_keys=True, has_tls=True),
            id="everything",
        ),
    ],
)
def test_a_state_is_read_as_it_was_written(reported: GatewayState) -> None:
    assert (
        configuration_state.read(configuration_state.build_manifest(reported, "modelplane-system"))
        == reported
    )


@pytest.mark.parametrize(
    "config_map",
    [
        pytest.param({}, id="without data"),
        pytest.param({"data": None}, id="with null data"),
        pytest.param({"data": {"state.json": "{"}}, id="cut off"),
        pytest.param({"data": {"state.json": '{"asksForKeys": "yes"}'}}, id="of another type"),
    ],
)
def test_a_state_that_cannot_be_read_says_nothing(config_map: dict[str, object]) -> None:
    assert configuration_state.read(config_map) is None


def test_a_later_version_may_say_more() -> None:
    assert configuration_state.read({"data": {"state.json": '{"problem": "a", "new": 1}'}}) == GatewayState(
        problem="a"
    )
