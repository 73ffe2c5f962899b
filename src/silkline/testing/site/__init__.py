"""A web site on this machine for testing crawls: a `LocalSite` with your own routes, or a `Shop`."""

from silkline.testing.site.answers import Answer, Raw, Route, Wire, healing, redirect
from silkline.testing.site.local import LocalSite
from silkline.testing.site.process import SiteProcess
from silkline.testing.site.shop import Shop
from silkline.testing.site.visits import Visit, Visits

__all__ = [
    "Answer",
    "LocalSite",
    "Raw",
    "Route",
    "Shop",
    "SiteProcess",
    "Visit",
    "Visits",
    "Wire",
    "healing",
    "redirect",
]
