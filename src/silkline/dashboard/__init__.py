"""The dashboard: web pages about all crawls of a server, standalone or mounted in your app. Needs ``silkline[dashboard]``."""

from __future__ import annotations

from silkline.errors import ConfigError

try:
    from silkline.dashboard.application import Dashboard, app
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package == "silkline":
        raise
    raise ConfigError(f"the dashboard needs the package {package}: pip install 'silkline[dashboard]'") from None

__all__ = ["Dashboard", "app"]
