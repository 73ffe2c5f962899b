"""Cookies, as browsers keep and send them."""
