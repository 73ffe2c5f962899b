"""``silkline demo``: crawl a local shop, kill a worker, and compare the result."""
