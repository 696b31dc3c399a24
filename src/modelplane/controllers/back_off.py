"""Delay before another attempt, which doubles with each failure."""


def delay_s(first_s: float, failures: int, longest_s: float) -> float:
    """Return the delay after an attempt that ``failures`` failed ones in a row preceded."""
    return min(first_s * 2.0 ** min(failures, 20), longest_s)  # a larger exponent overflows in the end
