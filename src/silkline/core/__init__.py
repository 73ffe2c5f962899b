"""Values and decisions: no I/O, no clock, no randomness."""
