"""What every process that works on a crawl needs, whether it is a Silkline worker or a Scrapy spider."""
