"""Files: arrays, tables, bags, models, and atomic writes."""
