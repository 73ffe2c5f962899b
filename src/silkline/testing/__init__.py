"""What a user of Silkline needs to test a crawl."""
