"""Benchmarks: each against a limit or a peer measured in the same run."""
