"""The statements of P1 (Lopardo, Precioso, Garreau, 2024); importing registers them, in the order
of the paper.
"""

import importlib

SECTIONS = (
    "model_section",
    "gradient_section",
    "lime_section",
    "theorem_5_1",
    "comments_5_2",
    "appendix_a",
    "appendix_b",
    "appendix_b_integral",
    "appendix_b1",
    "appendix_c",
    "appendix_d",
    "beside_the_theorems",
)

for _section in SECTIONS:
    importlib.import_module(f"{__name__}.{_section}")
