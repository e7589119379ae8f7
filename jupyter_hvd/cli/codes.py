"""Exit codes: nothing is wrong; a file was refused, or a check failed; unusable input or usage."""

OK, REFUSED, UNUSABLE = 0, 1, 2
