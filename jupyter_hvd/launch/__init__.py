"""Places ranks on hosts and supervises their processes, for batch jobs and notebooks."""
