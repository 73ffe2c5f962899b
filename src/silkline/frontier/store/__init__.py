"""How a crawl is stored in Redis: keys, settings, records, seen filters."""
