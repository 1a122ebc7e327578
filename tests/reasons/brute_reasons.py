"""Smallest sufficient and flipping sets from all coalitions, by the definitions alone."""

import numpy as np

from tests import enumeration


class Truth:
    def __init__(self, game, threshold):
        d = game.d
        self.f = enumeration.values(game)
        self.masks = enumeration.coalitions(d)
        self.size = self.masks.sum(axis=1)
        index = np.arange(2**d)
        above = self.f[-1] > threshold
        if above:
            same = self.f > threshold
        else:
            same = self.f < threshold
        if above:
            other = self.f < threshold
        else:
            other = self.f > threshold
        self.sign = 1 if above else -1
        # R suffices if all its supersets are on the same side; R flips if its complement is on the
        # other.
        self.suffices = np.array([same[(index & R) == R].all() for R in index])
        self.flips = other[index[::-1]]

    def number(self, players):
        return sum(1 << j for j in players)

    def smallest_sufficient(self):
        return self.size[self.suffices].min()

    def smallest_flip(self):
        """The least number of players; d + 1 where no removal flips."""
        if self.flips.any():
            return self.size[self.flips].min()
        return self.masks.shape[1] + 1

    def worst(self, players):
        """The value nearest to the threshold among the coalitions that contain the players."""
        R = self.number(players)
        return (self.sign * self.f[(np.arange(len(self.f)) & R) == R]).min() * self.sign
