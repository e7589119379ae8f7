"""Places ranks on hosts and watches over their processes: batch jobs and what both sides need."""
