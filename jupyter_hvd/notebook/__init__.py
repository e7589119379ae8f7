"""The notebook's side of `%%distribute`: what a cell needs, the living ranks, and what is shown of them."""
