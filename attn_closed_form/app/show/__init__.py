"""Views of explanations: terminal, report, plots, other packages' objects.

They compute nothing again.
"""
