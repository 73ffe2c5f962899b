"""For the tests of those who use Silkline: a frontier in memory, and a clock that stands still."""

from silkline.testing.clock import Clock
from silkline.testing.memory import MemoryFrontier

__all__ = ["Clock", "MemoryFrontier"]
