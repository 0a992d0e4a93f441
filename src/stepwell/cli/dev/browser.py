"""Opening a page in the browser of the person at this terminal."""

from __future__ import annotations

import os
import sys


def can_open() -> bool:
    """Whether there is a browser with a window. One that takes over the terminal would hide `stepwell dev`."""
    if os.environ.get("BROWSER"):
        return True
    if sys.platform in ("darwin", "win32"):
        return not os.environ.get("SSH_CONNECTION")
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_page(url: str) -> None:
    """Open a page."""
    import webbrowser

    webbrowser.open(url)
