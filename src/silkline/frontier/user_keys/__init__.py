"""Keys that belong to the user and not to a crawl: inboxes, outputs, counters, queues to import."""
