"""The middlewares of the project."""

from scrapy.downloadermiddlewares.retry import RetryMiddleware, get_retry_request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse


class LocalPages:
    """Answers some requests itself, and refuses others."""

    def process_request(self, request, spider):
        if request.url.endswith("/local"):
            return HtmlResponse(request.url, body=b"<title>made here</title>", request=request)
        if request.url.endswith("/skipped"):
            raise IgnoreRequest("not wanted")
        return None


class OwnRetry(RetryMiddleware):
    """Repeats pages of a ban, with a copy of the request, and what Scrapy repeats."""

    def process_response(self, request, response, spider):
        if b"<title>banned" in response.body:
            again = request.copy()
            again.meta["bans"] = again.meta.get("bans", 0) + 1
            again.dont_filter = True
            return again
        if response.status == 503:
            return get_retry_request(request, spider=spider, reason="busy") or response
        return response


class Fallback:
    """Asks another page when a site cannot be reached."""

    def process_exception(self, request, exception, spider):
        if "fallback" in request.meta:
            return request.replace(url=request.meta["fallback"], dont_filter=True)
        return None


class Rescue:
    """Makes an item of an exception in a callback."""

    def process_spider_exception(self, response, exception, spider):
        return [{"rescued": str(exception), "path": response.url.split("/", 3)[3]}]
