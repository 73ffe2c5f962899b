"""A Django project in one file: an async view and a plain one enqueue tasks, and return their results.

Run it with ASGI: uvicorn --app-dir examples/tasks django_views:application
With WSGI, each async view gets its own event loop, and so its own connection: use `sync` in all views.
"""

import os

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_GET, require_POST
from thumbnails import fetch, record

settings.configure(
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", "only for this example"),
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
)
django.setup()


@require_POST
async def start(_: HttpRequest, sku: str) -> JsonResponse:
    handle = await fetch.enqueue(sku=sku)
    return JsonResponse({"id": handle.id})


@require_GET
async def status(_: HttpRequest, call: str) -> JsonResponse:
    return JsonResponse({"status": await fetch.handle(call).status()})


@require_GET
async def result(_: HttpRequest, call: str) -> JsonResponse:
    return JsonResponse({"result": await fetch.handle(call).result(timeout=30)})


@require_POST
def start_record(request: HttpRequest, sku: str) -> JsonResponse:
    """Django runs a plain view in a thread. Threads share one connection."""
    handle = record.sync.enqueue(sku=sku, size=int(request.GET["size"]))
    return JsonResponse({"id": handle.id})


@require_GET
def record_result(_: HttpRequest, call: str) -> JsonResponse:
    return JsonResponse({"result": record.sync.handle(call).result(timeout=30)})


urlpatterns = [
    path("fetches/start/<sku>", start),
    path("fetches/<call>", status),
    path("fetches/<call>/result", result),
    path("records/start/<sku>", start_record),
    path("records/<call>/result", record_result),
]
application = get_asgi_application()
