"""tmp"""
from . import model_section, gradient_section, lime_section, theorem_5_1, comments_5_2, appendix_a, appendix_b  # noqa: F401, I001
