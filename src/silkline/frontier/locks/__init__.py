"""Locks, semaphores and rate limiters that all processes of a crawl share."""
