"""The classifier written naively from the paper, with autodiff: the witness that closed forms are tested against."""
