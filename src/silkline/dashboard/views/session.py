"""Signing in and out."""

from __future__ import annotations

import math
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from silkline.dashboard import security
from silkline.dashboard.pages import Form, PageContext, read_form
from silkline.dashboard.security import COOKIE, SESSION, Authenticator


def address(base: str, back: str) -> str:
    """Return the URL of the sign-in form, which redirects to *back* afterwards."""
    return f"{base}/sign-in?{urlencode({'next': back})}"


async def sign_in(request: Request) -> Response:
    request.state.server = None
    guard: Authenticator = request.app.guard
    page = PageContext(request)
    if not guard.asks:
        return page.go("/")
    if request.method == "GET":
        return page.render("sign_in.html", here="", next=security.local_path(page.asked("next")), wrong=False, name="")
    if not security.is_from_here(request):
        raise HTTPException(403, "The form was sent by another site.")
    form = await read_form(request)
    back, name = security.local_path(form.get("next", "")), form.get("name", "")
    client = security.address_of(request)
    if wait := guard.wrong_tokens.wait(client):
        return too_many(wait)
    if not guard.is_token(form.get("token", "").strip()):
        guard.wrong_tokens.note(client)
        return page.render("sign_in.html", here="", status=401, next=back, wrong=True, name=name[:100])
    guard.wrong_tokens.forget(client)
    answer = RedirectResponse(back or page.link("/"), 303)
    answer.set_cookie(
        COOKIE,
        guard.new_session(name),
        max_age=SESSION,
        path=page.base or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",  # with "strict", users who follow a link from a chat would have to sign in again
    )
    return answer


def too_many(wait: float) -> Response:
    """Return the response to a client that must wait after wrong tokens."""
    seconds = math.ceil(wait)
    text = f"Too many wrong tokens from this address. Try again in {seconds} s.\n"
    return PlainTextResponse(text, 429, {"Retry-After": str(seconds)})


async def sign_out(page: PageContext, _: Form) -> Response:
    """End the session, so that copies of its cookie become invalid."""
    answer = page.go("/")
    if session := page.visitor.session:
        await page.request.app.end_session(session)
    answer.delete_cookie(COOKIE, path=page.base or "/")
    return answer
