"""What `jupyter hvd job` writes: a stand-alone program, and what another place needs to run it. Text in, text out."""
