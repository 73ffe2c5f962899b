"""Functions of the standard library that are replaced for one module only.

Threads of other tests live in the same process. A clock that stands still or a sleep that returns at once must not reach
them: a server that polls would spin until the test ends.
"""

from __future__ import annotations

from types import SimpleNamespace


def patch_for(monkeypatch, module, library, **functions):
    """Give *module* a *library* ("time", "asyncio") with these *functions*; all other modules keep theirs."""
    monkeypatch.setattr(module, library, SimpleNamespace(**{**vars(getattr(module, library)), **functions}))
