"""Whether memory stays flat: the soak tests compare parts of a run with each other."""

from statistics import median

# Growth, in MB, of a process whose memory is flat: what its allocator keeps or returns.
FLAT_MB = 30


def growth(megabytes: list[float]) -> float:
    """Return how much larger the median of the last third of a run is than that of the second
    third.

    The first third does not count, because caches fill.

    >>> growth([10, 90, 100, 100, 101, 102])
    1.5
    """
    third = len(megabytes) // 3
    if not third:
        return 0.0
    return median(megabytes[-third:]) - median(megabytes[third : 2 * third])
