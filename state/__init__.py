"""What is remembered between runs: one partition per (server URL, user id), the global hash cache, the journal."""
