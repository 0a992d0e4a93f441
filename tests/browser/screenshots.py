"""Pictures of every page, in light and dark, on a desk and on a phone: `python -m tests.browser.screenshots`.

They go to screenshots/, which git ignores; the few that the documentation shows go to docs/images too. The pages are
those of dashboard/src/routes.tsx, so a new page has pictures by itself; a page of one thing needs an example below.
Look at each picture beside the design before a change of the pages is done.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from stepwell.http import Role
from tests.browser.pictures import shrink
from tests.browser.seed import ARABIC, WIDE
from tests.browser.site import ROOT, Site, launch_options, serve, serve_demo, sign_in

FOLDER: Final = ROOT / "screenshots"
IMAGES: Final = ROOT / "docs" / "images"
ROUTES: Final = ROOT / "dashboard" / "src" / "routes.tsx"
DESK: Final = {"width": 1440, "height": 1000}
PHONE: Final = {"width": 390, "height": 844}
PAPER: Final = {"width": 1280, "height": 800}  # of the documentation
_SETTLED_MS: Final = 600


class Shot(NamedTuple):
    """One page, and what is done on it before the picture."""

    name: str
    path: str
    act: Callable[[Page], None] = lambda page: None
    role: Role | None = Role.ADMIN
    demo: bool = False  # on the demonstration of `stepwell dev`, not on the shop of these tests
    image: str = ""  # its name in docs/images, if the documentation shows it


def _press(*keys: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.get_by_role("heading", level=1).wait_for()
        for key in keys:
            page.keyboard.press(key)

    return act


def _click(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("button", name=name).first.click()


def _ask(*names: str) -> Callable[[Page], None]:
    """Press buttons, one after the other."""

    def act(page: Page) -> None:
        for name in names:
            page.get_by_role("button", name=name).first.click()

    return act


def _read(page: Page) -> None:
    page.locator(".checks").first.wait_for()


def _open_row(page: Page) -> None:
    page.locator(".row-open").first.click()


def _select(page: Page, rows: int) -> None:
    page.locator("tbody tr").first.wait_for()
    for number in range(rows):
        page.locator("tbody input[type=checkbox]").nth(2 * number).evaluate("(it) => it.click()")


def _bulk(page: Page, verb: str) -> None:
    page.get_by_role("button", name="Act on all that match…").click()
    page.get_by_role("button", name=f"{verb}…").click()
    page.get_by_role("dialog").get_by_text("Such as").wait_for()


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
    Shot("runs-selected", "runs", lambda page: _select(page, 3)),
    Shot("runs-columns", "runs?columns=status,key,run,workflow,why,tags,started_by,created,ended,took&q=sort:-took"),
    Shot("dialog-bulk", "runs", lambda page: _bulk(page, "Cancel")),
    Shot("dialog-view", "runs?q=status:failed+since:24h", _click("Save this view…")),
    Shot("events", "events", _open_row),
    Shot("triggers", "triggers", _open_row),
    Shot("outbox", "outbox", _open_row),
    Shot("bulks", "bulk"),
    Shot("bulk", "bulk/bulk-1"),
    Shot("dialog-publish", "events", _click("Publish…")),
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
    Shot("schedules-none", "schedules"),
    Shot("alerts-none", "alerts"),
    Shot("letters-none", "dead-letters"),
    Shot("retention-none", "retention"),
    Shot("schedules", "schedules?open=nightly", demo=True, image="schedules"),
    Shot("schedule", "schedules/nightly", demo=True),
    Shot("schedule-broken", "schedules/shelf%20count", demo=True),
    Shot("schedule-viewer", "schedules/nightly", role=Role.VIEWER, demo=True),
    Shot("dialog-schedule", "schedules", _ask("New schedule…"), demo=True),
    Shot("dialog-backfill", "schedules/partner%20orders", _ask("Backfill…", "Dry run"), demo=True),
    Shot("alerts", "alerts", demo=True, image="alerts"),
    Shot("alerts-open", "alerts?rule=reports+fail+in+a+row", demo=True),
    Shot("dialog-alert", "alerts", _ask("New rule…"), demo=True),
    Shot("letters", "dead-letters", demo=True),
    Shot("letters-signal", "dead-letters?letter=signal-10", demo=True),
    Shot("letters-hook", "dead-letters?letter=hook-msg-0118", _ask("Bytes"), demo=True, image="dead-letters"),
    Shot("letters-dropped", "dead-letters?view=dropped", demo=True),
    Shot("dialog-letter", "dead-letters?letter=hook-msg-0118", _ask("Edit and retry…"), demo=True),
    Shot("dialog-letters", "dead-letters", _ask("Drop all…"), demo=True),
    Shot("retention", "retention", demo=True, image="retention"),
    Shot("dialog-erase", "retention", _ask("Erase runs…"), demo=True),
]


def all_shots() -> list[Shot]:
    """The shots above, and one of each other page. Raises `LookupError` for a page of one thing without an example."""
    found = list(SHOTS)
    for route in routes():
        if any(_is_of(shot.path, route) for shot in found):
            continue
        if ":" in route:
            raise LookupError(f"no picture shows {route}: add a Shot with an example of it to {Path(__file__).name}")
        found.append(Shot(route.replace("/", "-") or "home", route, demo=True))
    return found


def routes() -> list[str]:
    """The paths of all pages."""
    return re.findall(r'\bpath: "([^"]*)"', ROUTES.read_text(encoding="utf-8"))


def _is_of(path: str, route: str) -> bool:
    """Whether a path is shown by a route. A route without parameters is chosen before one with parameters."""
    plain = path.partition("?")[0]
    if plain in routes():
        return plain == route
    parts, wanted = plain.split("/"), route.split("/")
    return len(parts) == len(wanted) and all(
        each == part or each.startswith(":") for part, each in zip(parts, wanted, strict=True)
    )


def take(browser: Browser, site: Site, shot: Shot, *, scheme: str, viewport: dict[str, int]) -> None:
    """Take one picture."""
    context = browser.new_context(base_url=site.url, color_scheme=scheme, viewport=viewport)  # type: ignore[arg-type]
    if shot.role is not None:
        sign_in(context, site, shot.role)
    page = context.new_page()
    page.goto(f"/{shot.path}")
    shot.act(page)
    page.wait_for_timeout(_SETTLED_MS)
    page.locator(".skeleton").first.wait_for(state="detached")
    if viewport is PAPER:
        page.screenshot(path=IMAGES / f"{shot.image}.png")
        shrink(IMAGES / f"{shot.image}.png")
    else:
        where = "phone" if viewport is PHONE else "desk"
        page.screenshot(path=FOLDER / f"{shot.name}-{where}-{scheme}.png", full_page=True)
    context.close()


def _take_all(browser: Browser, site: Site, shots: list[Shot]) -> int:
    count = 0
    for shot in shots:
        for scheme in ("light", "dark"):
            for viewport in (DESK, PHONE):
                take(browser, site, shot, scheme=scheme, viewport=viewport)
                count += 1
        if shot.image:
            take(browser, site, shot, scheme="light", viewport=PAPER)
            count += 1
    browser.close()
    return count


def main(words: list[str]) -> int:
    """Take all pictures, or those whose names begin with one of the words."""
    FOLDER.mkdir(exist_ok=True)
    IMAGES.mkdir(exist_ok=True)
    chosen = [shot for shot in all_shots() if not words or shot.name.startswith(tuple(words))]
    count = 0
    for is_demo, server in ((False, serve), (True, serve_demo)):
        shots = [shot for shot in chosen if shot.demo is is_demo]
        if shots:
            # The server comes first: while the browser is there, its event loop runs in this thread.
            with TemporaryDirectory() as folder, server(Path(folder)) as site, sync_playwright() as playwright:
                count += _take_all(playwright.chromium.launch(**launch_options()), site, shots)
    print(f"{count} pictures in {FOLDER.name}/, those of the documentation in docs/{IMAGES.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
