"""``silkline demo``: the shop that is crawled, and the queue that is drained."""
