"""Pictures of every page, in light and dark, on a desk and on a phone: `python -m tests.browser.screenshots`.

They go to screenshots/, which git ignores. Look at each of them beside the design before a change of the pages is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from stepwell.http import Role
from tests.browser.seed import ARABIC, WIDE
from tests.browser.site import Site, launch_options, serve, sign_in

FOLDER: Final = Path(__file__).resolve().parents[2] / "screenshots"
DESK: Final = {"width": 1440, "height": 1000}
PHONE: Final = {"width": 390, "height": 844}
_SETTLED_MS: Final = 600


class Shot(NamedTuple):
    """One page, and what is done on it before the picture."""

    name: str
    path: str
    act: Callable[[Page], None] = lambda page: None
    role: Role | None = Role.ADMIN


def _press(*keys: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.get_by_role("heading", level=1).wait_for()
        for key in keys:
            page.keyboard.press(key)

    return act


def _click(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("button", name=name).first.click()


def _read(page: Page) -> None:
    page.locator(".checks").first.wait_for()


SHOTS: Final = [
    Shot("home", ""),
    Shot("runs", "runs"),
    Shot("runs-filtered", "runs?q=status:failed,paused+workflow:h*"),
    Shot("runs-wrong-filter", "runs?q=statsu:failed+workflow:order*"),
    Shot("runs-nothing", "runs?q=key:nothing-like-this"),
    Shot("run-failed", "runs/order-4711"),
    Shot("run-rollback", "runs/order-4702"),
    Shot("run-waiting", "runs/order-4715"),
    Shot("run-retrying", "runs/sync-1"),
    Shot("run-running", "runs/import-1"),
    Shot("run-completed", "runs/thumbs-1"),
    Shot("run-hostile", "runs/hostile-1"),
    Shot("run-arabic", f"runs/{ARABIC}"),
    Shot("run-wide", f"runs/{WIDE}"),
    Shot("run-pending", "runs/report-1"),
    Shot("run-review", "runs/review-1"),
    Shot("run-then", "runs/review-1?then=2"),
    Shot("run-published", "runs/review-1?tab=published"),
    Shot("run-signals-typed", "runs/review-1?tab=signals"),
    Shot("run-long", "runs/rows-1"),
    Shot("run-history", "runs/order-4711?tab=history&entry=3"),
    Shot("run-signals", "runs/order-4715?tab=signals"),
    Shot("run-undo", "runs/order-4702?tab=undo"),
    Shot("run-io", "runs/order-4711?tab=io"),
    Shot("run-related", "runs/books-1?tab=related"),
    Shot("run-acts", "runs/paused-1?tab=acts"),
    Shot("run-raw", "runs/order-4715?tab=raw"),
    Shot("run-missing", "runs/nobody"),
    Shot("run-viewer", "runs/order-4715?tab=io", role=Role.VIEWER),
    Shot("workflows", "workflows"),
    Shot("workflow", "workflows/order_fulfilment"),
    Shot("workflow-scalar", "workflows/make_thumbnails"),
    Shot("workflow-unknown", "workflows/nightly_report"),
    Shot("workflow-viewer", "workflows/order_fulfilment", role=Role.VIEWER),
    Shot("doctor", "doctor", _read),
    Shot("doctor-viewer", "doctor", _read, role=Role.VIEWER),
    Shot("errors", "errors"),
    Shot("errors-open", "errors", lambda page: page.locator(".err-open").first.click()),
    Shot("errors-hostile", "errors", lambda page: page.locator(".err-open", has_text="<img").first.click()),
    Shot("errors-nothing", "errors?q=key:nothing-like-this"),
    Shot("compare", "compare/order-1/order-4711"),
    Shot("compare-wide", f"compare/hostile-1/{WIDE}"),
    Shot("compare-choose", "compare"),
    Shot("workers", "workers"),
    Shot("audit", "audit"),
    Shot("settings", "settings"),
    Shot("not-found", "nowhere/at/all"),
    Shot("sign-in", "", role=None),
    Shot("palette", "runs/order-4715", _press("/")),
    Shot("keys", "runs", _press("?")),
    Shot("dialog-cancel", "runs/order-4715", _click("Cancel…")),
    Shot("dialog-redrive", "runs/order-4711", _click("Redrive…")),
    Shot("dialog-skip", "runs/review-1", _click("Skip…")),
    Shot("dialog-signal", "runs/order-4715", _click("Send signal…")),
    Shot("dialog-start", "runs", _click("Start a run…")),
]


def take(browser: Browser, site: Site, shot: Shot, *, scheme: str, viewport: dict[str, int]) -> None:
    """Take one picture."""
    context = browser.new_context(base_url=site.url, color_scheme=scheme, viewport=viewport)  # type: ignore[arg-type]
    if shot.role is not None:
        sign_in(context, site, shot.role)
    page = context.new_page()
    page.goto(f"/{shot.path}")
    shot.act(page)
    page.wait_for_timeout(_SETTLED_MS)
    where = "phone" if viewport is PHONE else "desk"
    page.screenshot(path=FOLDER / f"{shot.name}-{where}-{scheme}.png", full_page=True)
    context.close()


def main(words: list[str]) -> int:
    """Take all pictures, or those whose names begin with one of the words."""
    FOLDER.mkdir(exist_ok=True)
    chosen = [shot for shot in SHOTS if not words or shot.name.startswith(tuple(words))]
    with TemporaryDirectory() as folder, serve(Path(folder)) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        for shot in chosen:
            for scheme in ("light", "dark"):
                for viewport in (DESK, PHONE):
                    take(browser, site, shot, scheme=scheme, viewport=viewport)
        browser.close()
    print(f"{4 * len(chosen)} pictures in {FOLDER.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
