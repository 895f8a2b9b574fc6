"""The photo server's HTTP API: client, typed errors, and the simulator that the demo and the tests use."""
