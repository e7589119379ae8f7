"""The notebook's side of `%%distribute`: what a cell needs, the running ranks, and their output."""
