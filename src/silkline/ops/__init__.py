"""Logic for operators, used by the CLI and the dashboard: metrics, autoscaling, doctor, capacity."""
