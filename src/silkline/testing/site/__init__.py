"""A web site on this machine for testing crawls: a `LocalSite` with your own routes, or a `Shop`."""

from silkline.testing.site.local import LocalSite
from silkline.testing.site.process import SiteProcess
from silkline.testing.site.responses import Raw, Route, SiteResponse, Wire, healing, redirect
from silkline.testing.site.shop import Shop
from silkline.testing.site.visits import Visit, Visits

__all__ = [
    "LocalSite",
    "Raw",
    "Route",
    "Shop",
    "SiteProcess",
    "SiteResponse",
    "Visit",
    "Visits",
    "Wire",
    "healing",
    "redirect",
]
