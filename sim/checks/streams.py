"""The one stream that programs append to."""

from __future__ import annotations

STREAM = "out"
