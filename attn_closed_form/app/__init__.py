"""The product: models, files, explanations, views, runs, the page and the command line."""
