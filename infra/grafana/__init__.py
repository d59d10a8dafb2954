"""The Grafana dashboard of the local stack's Prometheus metrics."""
