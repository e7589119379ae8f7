"""What `jupyter hvd job` writes: a stand-alone program, and the files that run it elsewhere. Text in, text out."""
