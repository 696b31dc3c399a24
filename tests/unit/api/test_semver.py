import itertools

import pytest

from modelplane.api.values import semver
from modelplane.api.values.semver import Semver, SemverError

# Semver 2.0.0, clause 11: the specification's own example, with what surrounds it.
ORDERED = (
    "0.9.9",
    "1.0.0-1",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "2.0.0",
)


@pytest.mark.parametrize(("less", "more"), list(itertools.combinations(ORDERED, 2)))
def test_versions_are_ordered_as_the_specification_says(less: str, more: str) -> None:
    assert semver.parse(less) < semver.parse(more)
    assert semver.parse(more) >= semver.parse(less)


def test_build_metadata_does_not_count() -> None:
    assert semver.parse("1.2.3-rc.1+linux.5") == Semver(1, 2, 3, ("rc", 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("v12.4", Semver(12, 4, 0), id="a v and a missing patch"),
        pytest.param("9", Semver(9, 0, 0), id="a major number alone"),
        pytest.param("01.002.0003", Semver(1, 2, 3), id="leading zeros"),
        pytest.param("1.2.00-rc", Semver(1, 2, 0, ("rc",)), id="zeros before a prerelease"),
    ],
)
def test_normalizing_forgives(text: str, expected: Semver) -> None:
    assert semver.parse(text, normalize=True) == expected


@pytest.mark.parametrize(
    ("text", "normalize", "message"),
    [
        pytest.param(
            "9.0", False, '"9.0" is not a version: write major.minor.patch, such as 9.0.0', id="a short one"
        ),
        pytest.param(
            "v9.0.0",
            False,
            '"v9.0.0" is not a version: "v9" is not a number without leading zeros',
            id="a v",
        ),
        pytest.param(
            "1.0.0-a..b",
            False,
            '"1.0.0-a..b" is not a version: its prerelease part "" is malformed',
            id="an empty identifier",
        ),
        pytest.param(
            "1.0.0+",
            False,
            '"1.0.0+" is not a version: its build part "" is malformed',
            id="an empty build part",
        ),
        pytest.param(
            "1.2-rc",
            True,
            '"1.2-rc" is not a version: a short one cannot have a prerelease or build part',
            id="a short prerelease",
        ),
        pytest.param(
            "18446744073709551616.0.0",
            False,
            '"18446744073709551616.0.0" is not a version: "18446744073709551616" exceeds 64 bits',
            id="a number beyond 64 bits",
        ),
    ],
)
def test_a_malformed_version_says_what_is_wrong(text: str, normalize: bool, message: str) -> None:
    with pytest.raises(SemverError) as error:
        semver.parse(text, normalize=normalize)
    assert str(error.value) == message
