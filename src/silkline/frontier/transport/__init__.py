"""How commands reach Redis: clients, nodes, retries, scripts, notifications."""
