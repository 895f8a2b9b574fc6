"""What `deletion-sync up` brings up: Prefect's server, the work pool, the deployments of prefect.yaml and a worker."""
