"""What other tools read: rules and a dashboard for Prometheus and Grafana, metrics, a Kubernetes manifest."""
