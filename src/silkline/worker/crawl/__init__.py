"""What users write: a crawl, its handlers, its pages and links."""
