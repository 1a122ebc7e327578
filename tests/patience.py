"""How long a test waits for what takes milliseconds: only a hang lasts as long, whatever else the machine does."""

PATIENCE = 300.0  # seconds
