"""From a model and an input to explanations: the table of methods, and what they return."""
