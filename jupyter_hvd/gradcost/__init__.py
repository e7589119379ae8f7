"""What the derivatives of a tensor function cost: where, why, and what to change.

`subject` is the function under inspection, `report` the figures at given sizes as plain data, `advice`
what would lower them, `plainjax` what JAX alone makes of the same program. `fallback` shows a report as
text, HTML and SVG; `panel` shows it live, through a comm. Arrows run one way, from the
panel to the tensor language.
"""
