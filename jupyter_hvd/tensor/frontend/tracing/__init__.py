"""The functions that rewritten code calls, by topic: packing values into terms, conditions, loops, arithmetic,
entries, calls. Each builds on the one before; `calls.Tracer` is all of them."""
