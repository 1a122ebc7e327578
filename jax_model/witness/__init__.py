"""The reference implementation of the classifier, written naively from the paper, with autodiff and
enumeration.
"""
