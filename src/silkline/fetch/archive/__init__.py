"""Reading archives: WARC and WACZ files as a source of pages."""
