"""What is a layer, or a model, which is one."""

from __future__ import annotations
