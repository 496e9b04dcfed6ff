"""Cloud Monitoring: notification channels and alert policies (v3), dashboards (v1); nothing is measured."""
