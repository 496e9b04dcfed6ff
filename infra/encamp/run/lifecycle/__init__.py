"""The life of a job: brought up, trained, taken down and accounted for, by its driver or by the reaper."""
