"""The log that each job of `jupyter hvd run` keeps, and what is asked of it later: `jobs`, `logs`, `stop`."""
