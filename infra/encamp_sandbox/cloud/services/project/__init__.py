"""APIs of the project as a whole: Resource Manager, Service Usage, Cloud Billing and budgets, Cloud Quotas."""
