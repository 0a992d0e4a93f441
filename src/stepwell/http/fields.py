"""Types of fields that several requests have."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from stepwell.http.limits import PAGE_MAX

Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
Text = Annotated[str, Meta(max_length=1_024)]
KeyText = Annotated[str, Meta(min_length=1, max_length=200)]
DurationText = Annotated[str, Meta(max_length=40, pattern=r"^(\d{1,9}(\.\d{1,6})?(us|ms|s|m|h|d|w))+$")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
