"""Tools for testing handlers, crawls and tasks: pages, a frontier in memory, a manual clock, and local web sites."""

from silkline.testing.clock import Clock
from silkline.testing.handlers import HandlerResult, page, run_handler
from silkline.testing.memory.frontier import MemoryFrontier
from silkline.testing.site import LocalSite, Raw, Shop, SiteProcess, SiteResponse, Visit, healing, redirect
from silkline.testing.tasks import MemoryTasks

__all__ = [
    "Clock",
    "HandlerResult",
    "LocalSite",
    "MemoryFrontier",
    "MemoryTasks",
    "Raw",
    "Shop",
    "SiteProcess",
    "SiteResponse",
    "Visit",
    "healing",
    "page",
    "redirect",
    "run_handler",
]  # fmt: skip
