"""The embedded server: a Valkey that Silkline starts and stops itself."""
