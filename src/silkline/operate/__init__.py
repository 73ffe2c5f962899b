"""Arithmetic and judgement for operators: pure functions over what the frontier tells."""
