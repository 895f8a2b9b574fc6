"""The pipelines: reconcile, apply and restore; each runs under Prefect or directly, by the same definition."""
