"""Which proxy a fetch uses: the pool of one process, what its workers share, and tiers of pools."""
