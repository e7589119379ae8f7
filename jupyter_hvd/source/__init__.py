"""The user's own text: cells joined and split, and edits to it."""
