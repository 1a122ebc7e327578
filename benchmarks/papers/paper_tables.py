"""Numbers printed in P2 (Leemann et al.), with their standard errors, for the models that ours
stand beside.

BERT for our encoder, GPT-2 for our decoder. Keys are the names of `rivals.py`.
"""

from __future__ import annotations

Numbers = dict[str, dict[str, tuple[float, float]]]

SLALOM = ("SLALOM-fidel, v", "SLALOM-fidel, lin.", "SLALOM-eff, v", "SLALOM-eff, lin.")
OTHERS = ("LIME", "SHAP", "IG", "Grad", "LRP")


def _named(names: tuple[str, ...], values: str) -> dict[str, tuple[float, float]]:
    """Numbers as printed, 'mean error mean error ...'."""
    numbers = [float(x) for x in values.split()]
    return {name: (numbers[2 * i], numbers[2 * i + 1]) for i, name in enumerate(names)}


_SCORES = (
    "SLALOM-fidel, v",
    "SLALOM-fidel, s",
    "SLALOM-fidel, lin.",
    "SLALOM-eff, v",
    "SLALOM-eff, s",
    "SLALOM-eff, lin.",
)
TABLE_9: Numbers = {
    "BERT": _named(
        _SCORES + OTHERS,
        "0.475 0.12 0.031 0.09 0.474 0.12 0.619 0.08 0.349 0.09 0.626 0.08 0.616 0.08 0.554 0.09 "
        "-0.125 0.14 -0.123 0.14 0.639 0.08",
    ),
    "GPT-2": _named(
        _SCORES + OTHERS,
        "0.467 0.17 0.017 0.08 0.468 0.17 0.618 0.08 0.292 0.10 0.619 0.08 0.213 0.13 0.560 0.09 "
        "0.033 0.13 0.031 0.13 0.615 0.08",
    ),
}
_HUMAN = ("SLALOM-eff, v", "SLALOM-eff, s", "SLALOM-eff, lin.", "LIME", "SHAP", "LRP")
TABLE_10: Numbers = {
    "BERT": _named(_HUMAN, "0.786 0.01 0.807 0.01 0.801 0.01 0.805 0.01 0.800 0.01 0.813 0.01"),
    "GPT-2": _named(_HUMAN, "0.674 0.01 0.685 0.01 0.683 0.01 0.632 0.01 0.671 0.01 0.699 0.01"),
}
# Table 1c is headed deletion, but its numbers are those of insertion (section 6.3 says so).
TABLE_11: dict[tuple[str, str], Numbers] = {
    ("IMDB", "insertion"): {
        "BERT": _named(
            SLALOM + OTHERS,
            "0.025 0.002 0.023 0.001 0.031 0.002 0.031 0.002 0.024 0.002 0.026 0.003 0.557 0.034 "
            "0.611 0.033 0.030 0.006",
        ),
        "GPT-2": _named(
            SLALOM + OTHERS,
            "0.052 0.008 0.050 0.008 0.089 0.008 0.089 0.008 0.230 0.017 0.042 0.005 0.454 0.022 "
            "0.493 0.023 0.069 0.010",
        ),
    },
    ("IMDB", "deletion"): {
        "BERT": _named(
            SLALOM + OTHERS,
            "0.893 0.012 0.901 0.012 0.881 0.010 0.885 0.010 0.875 0.012 0.881 0.011 0.084 0.010 "
            "0.069 0.008 0.852 0.019",
        ),
        "GPT-2": _named(
            SLALOM + OTHERS,
            "0.837 0.013 0.844 0.013 0.782 0.013 0.784 0.012 0.479 0.024 0.859 0.012 0.289 0.021 "
            "0.269 0.020 0.833 0.013",
        ),
    },
    ("Yelp", "insertion"): {
        "BERT": _named(
            SLALOM + OTHERS,
            "0.015 0.005 0.011 0.005 0.011 0.005 0.011 0.005 0.017 0.009 0.012 0.005 0.224 0.024 "
            "0.214 0.022 0.010 0.005",
        ),
        "GPT-2": _named(
            SLALOM + OTHERS,
            "0.033 0.007 0.032 0.007 0.045 0.007 0.045 0.007 0.129 0.019 0.021 0.004 0.251 0.024 "
            "0.244 0.024 0.039 0.007",
        ),
    },
    ("Yelp", "deletion"): {
        "BERT": _named(
            SLALOM + OTHERS,
            "0.657 0.038 0.667 0.038 0.865 0.012 0.863 0.013 0.797 0.022 0.859 0.013 0.249 0.028 "
            "0.281 0.029 0.855 0.017",
        ),
        "GPT-2": _named(
            SLALOM + OTHERS,
            "0.747 0.024 0.753 0.024 0.726 0.021 0.727 0.021 0.444 0.028 0.849 0.015 0.292 0.026 "
            "0.290 0.026 0.740 0.025",
        ),
    },
}
# Insertion, deletion.
TABLE_12 = {
    "SHAP": ((0.0120, 0.005), (0.8022, 0.026)),
    "LIME": ((0.0053, 0.003), (0.9481, 0.005)),
    "SLALOM-eff, lin.": ((0.0039, 0.001), (0.9601, 0.004)),
}
# Seconds for 5000 samples (Table 2; Table 13a has the same column).
TABLE_2 = {
    "Grad": (0.01, 0.00),
    "IG": (0.02, 0.00),
    "LRP": (0.02, 0.00),
    "SLALOM-eff": (2.03, 0.01),
    "SLALOM-fidel": (3.77, 0.24),
    "LIME": (3.93, 0.19),
    "SHAP": (11.56, 0.03),
}
# Table 13a, 1000 samples.
TABLE_13 = {
    "Grad": (0.01, 0.00),
    "IG": (0.02, 0.00),
    "LRP": (0.02, 0.00),
    "SLALOM-eff": (0.42, 0.01),
    "SLALOM-fidel": (0.74, 0.03),
    "LIME": (0.80, 0.04),
    "SHAP": (2.35, 0.01),
}
TABLE_14: dict[int | str, tuple[float, float]] = {
    "SHAP": (0.9135, 0.0105),
    500: (0.9243, 0.0105),
    1000: (0.9236, 0.005),
    2000: (0.9348, 0.005),
    5000: (0.9387, 0.005),
    10000: (0.9387, 0.005),
}
