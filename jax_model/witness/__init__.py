"""The classifier written naively from the paper, with autodiff and enumeration: what closed forms are held to."""
