"""Conversion between Scrapy's requests, settings and messages and those of Silkline."""
