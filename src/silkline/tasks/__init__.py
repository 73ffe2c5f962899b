"""Typed tasks: named functions with arguments that workers run, stored as requests of a frontier."""
