"""The rank's side: what runs in each process of a job."""
