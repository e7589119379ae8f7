"""Jobs without a notebook: the files that run a program elsewhere, and the log that each job of `jupyter hvd run` keeps."""
