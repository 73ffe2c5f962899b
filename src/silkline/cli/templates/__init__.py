"""Files that commands write for their users. Each is a program that runs as it is."""
