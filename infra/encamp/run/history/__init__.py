"""Every job, living or ended, as the record and the bucket tell it: lists, logs and results."""
