"""Models that can be explained: the protocol, and one module per kind of model."""
