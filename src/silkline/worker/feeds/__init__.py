"""Feeds: where a crawl gets its requests from while it runs."""
