"""The measure of flat memory sees a leak and ignores caches that fill."""

from tests.memory import FLAT_MB, growth


def test_a_leak_grows_and_a_cache_does_not():
    leak = [100 + k for k in range(100)]
    cache = [*range(20, 100, 4), *[100 + k % 3 for k in range(80)]]
    assert growth(leak) > FLAT_MB
    assert abs(growth(cache)) <= 1
    assert growth([5.0]) == 0
