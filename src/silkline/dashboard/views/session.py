"""Signing in and out."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from silkline.dashboard import security
from silkline.dashboard.forms import Form, read_form
from silkline.dashboard.pages import Page
from silkline.dashboard.security import COOKIE, SESSION, Guard


def address(base: str, back: str) -> str:
    """Of the form, which leads back to where one wanted to go."""
    return f"{base}/sign-in?{urlencode({'next': back})}"


async def sign_in(request: Request) -> Response:
    request.state.house = None
    guard: Guard = request.app.guard
    page = Page(request)
    if not guard.asks:
        return page.go("/")
    if request.method == "GET":
        return page.render("sign_in.html", here="", next=security.local_path(page.asked("next")), wrong=False, name="")
    if not security.is_from_here(request):
        raise HTTPException(403, "This form was sent by another site.")
    form = await read_form(request)
    back, name = security.local_path(form.get("next", "")), form.get("name", "")
    if not guard.is_token(form.get("token", "").strip()):
        return page.render("sign_in.html", here="", status=401, next=back, wrong=True, name=name[:100])
    answer = RedirectResponse(back or page.link("/"), 303)
    answer.set_cookie(
        COOKIE,
        guard.new_session(name),
        max_age=SESSION,
        path=page.base or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",  # strict would ask everybody to sign in who follows a link from a chat
    )
    return answer


async def sign_out(page: Page, _: Form) -> Response:
    answer = page.go("/")
    answer.delete_cookie(COOKIE, path=page.base or "/")
    return answer
