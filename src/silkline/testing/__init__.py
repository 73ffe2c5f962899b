"""Tools for testing crawls: a frontier in memory, a manual clock, and local web sites."""

from silkline.testing.clock import Clock
from silkline.testing.memory.frontier import MemoryFrontier
from silkline.testing.site import Answer, LocalSite, Raw, Shop, SiteProcess, Visit, healing, redirect

__all__ = [
    "Answer", "Clock", "LocalSite", "MemoryFrontier", "Raw", "Shop", "SiteProcess", "Visit", "healing", "redirect",
]  # fmt: skip
