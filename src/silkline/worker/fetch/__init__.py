"""Fetching: one protocol, a guard that is not negotiable, and clients behind them."""
