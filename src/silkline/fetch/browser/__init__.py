"""Pages in a browser: Chromium through Playwright, whose connections all go through the guard."""
