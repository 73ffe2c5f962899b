"""Files that commands write for users. Each is a program that runs unchanged."""
