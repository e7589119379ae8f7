"""Exit codes: success; a file was refused or a check failed; unusable input or arguments."""

OK, REFUSED, UNUSABLE = 0, 1, 2
