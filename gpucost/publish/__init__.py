"""Output for other tools: Prometheus rules, a Grafana dashboard, metrics, Kubernetes manifests."""
