"""For the tests of those who use Silkline: a frontier in memory, a clock that stands still, and a web site of one's own."""

from silkline.testing.clock import Clock
from silkline.testing.memory import MemoryFrontier
from silkline.testing.site import Answer, LocalSite, Raw, Shop, SiteProcess, Visit

__all__ = ["Answer", "Clock", "LocalSite", "MemoryFrontier", "Raw", "Shop", "SiteProcess", "Visit"]
