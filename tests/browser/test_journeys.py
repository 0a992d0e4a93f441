"""Journeys with the keyboard alone, and what live updates must not do."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

from stepwell.http import Role
from tests.browser.conftest import Open, Tabs
from tests.browser.site import Site
from tests.browser.test_pages import settled


def expect_focus(page: Page, name: str) -> None:
    """Wait until that has the focus: a row by its first name, and anything else as it is named."""
    page.wait_for_function(
        """(name) => {
            const it = document.activeElement;
            const own = it?.querySelector('.name')?.textContent ?? it?.getAttribute('aria-label') ?? it?.textContent;
            return own?.trim() === name;
        }""",
        arg=name,
    )


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def start(site: Site, key: str, workflow: str = "approval") -> str:
    """Start a run by the API, as another program does."""
    headers = {"authorization": f"Bearer {site.tokens[Role.OPERATOR]}"}
    body = {"workflow": workflow, "key": key, "input": {"customer": "ann", "amount": 1}}
    answer = httpx.post(f"{site.url}/api/runs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run"]["run_id"])


def test_a_failed_run_is_found_and_redriven_with_the_keyboard(open_page: Open) -> None:
    page = open_page()
    settled(page, "What needs you")
    press(page, "g", "r")
    settled(page, "Runs")
    expect_focus(page, "Runs")

    press(page, "f")
    expect_focus(page, "Add a filter")
    page.keyboard.type("status:comp")
    expect(page.get_by_role("option", name="status:compensated")).to_be_visible()
    press(page, "ArrowDown", "ArrowDown", "Enter")
    page.wait_for_url("**/runs?q=status%3Acompleted")
    press(page, "Backspace")
    expect(page.get_by_role("combobox")).to_have_value("status:completed")
    press(page, "Control+A")
    page.keyboard.type("status:failed")
    press(page, "Enter")
    page.wait_for_url("**/runs?q=status%3Afailed")
    expect(page.locator("tbody tr")).to_have_count(2)
    press(page, "Escape", "j", "j")
    expect_focus(page, "hostile-1")

    press(page, "Enter")
    settled(page, "hostile-1")
    press(page, "2")
    page.wait_for_url("**tab=history**")
    press(page, ".")
    expect(page.get_by_role("combobox", name="Search or go to")).to_be_focused()
    page.keyboard.type("Redrive")
    expect(page.get_by_role("option")).to_have_count(1)
    press(page, "Enter")
    dialog = page.get_by_role("dialog", name="Continue the run")
    dialog.get_by_role("button", name="Dry run").focus()
    press(page, "Enter")
    expect(dialog.get_by_role("heading", name="Runs again")).to_be_visible()
    expect(dialog.locator(".plan").first).to_contain_text("read")
    press(page, "Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator(".badge")).to_have_text("Failed")


def test_a_waiting_run_is_found_by_the_palette_and_gets_its_signal(open_page: Open, site: Site) -> None:
    start(site, "palette-1")
    page = open_page()
    settled(page, "What needs you")
    press(page, "/")
    page.keyboard.type("palette-1")
    expect(page.get_by_role("option", name="palette-1 Waiting")).to_be_visible()
    press(page, "Enter")
    settled(page, "palette-1")
    expect(page.locator(".badge")).to_have_text("Waiting for a signal")
    page.get_by_role("button", name="Send signal…").focus()
    press(page, "Enter")

    expect(page.get_by_label("Name", exact=True)).to_have_value("approve")
    page.get_by_label("Payload").fill('{"approved": true}')
    expect(page.locator("dialog .cmd code")).to_have_text(re.compile(r"^stepwell signal \S+ approve approved:=true$"))
    press(page, "Tab", "Tab", "Tab")
    expect_focus(page, "Send signal")
    press(page, "Enter")
    expect(page.get_by_text("palette-1 got signal approve")).to_be_visible()
    expect(page.locator(".badge")).to_have_text("Completed")
    press(page, "5")
    expect(page.get_by_label("Output", exact=True)).to_contain_text("approved")


def test_the_tree_of_steps_is_walked_with_arrows(open_page: Open) -> None:
    page = open_page("runs/thumbs-1")
    settled(page, "thumbs-1")
    page.get_by_role("row", name=re.compile("make_thumbnails")).focus()
    press(page, "ArrowDown")
    expect_focus(page, "pictures")
    closed = page.get_by_role("row").count()
    press(page, "ArrowRight")
    expect(page.get_by_role("row")).to_have_count(closed - 2 + 80)
    press(page, "ArrowLeft", "n")
    expect(page.get_by_role("complementary")).to_contain_text("the picture is broken")
    page.wait_for_url("**at=pictures%2F%7E23%2Fthumbnail")
    press(page, "End", "Home")
    expect_focus(page, "make_thumbnails")


def test_single_letters_can_be_turned_off_and_never_act_in_a_field(open_page: Open) -> None:
    page = open_page("runs")
    settled(page, "Runs")
    press(page, "f")
    page.keyboard.type("g h?")
    assert page.url.endswith("/runs")
    press(page, "Escape", "Escape", "?")
    page.get_by_label("Single letters are keys.").uncheck()
    press(page, "Escape", "g", "h", "?")
    assert page.url.endswith("/runs")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press(page, "Control+k")
    expect(page.get_by_role("dialog", name="Search or go to")).to_be_visible()


def test_new_runs_wait_until_they_are_asked_for(open_page: Open, site: Site) -> None:
    page = open_page("runs")
    settled(page, "Runs")
    page.get_by_role("link", name="order-4711").focus()
    names = page.locator("tbody a.id")
    before = names.all_inner_texts()
    press(page, "f")
    page.keyboard.type("sta")
    start(site, "newer-1")

    more = page.get_by_role("button", name=re.compile("new run"))
    expect(more).to_be_visible()
    assert names.all_inner_texts() == before
    expect_focus(page, "Add a filter")
    expect(page.get_by_role("combobox")).to_have_value("sta")
    more.click()
    expect(page.get_by_role("link", name="newer-1")).to_be_visible()


def test_a_run_is_followed_while_it_moves_and_steals_nothing(tabs: Tabs, site: Site) -> None:
    tabs.watch.allowed = ("409 (Conflict)",)
    run = start(site, "followed-1")
    page = tabs.open("runs/followed-1?tab=io")
    settled(page, "followed-1")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_label(re.compile("Reason")).fill("half a sent")
    headers = {"authorization": f"Bearer {site.tokens[Role.OPERATOR]}"}
    body = {"name": "approve", "payload": {"by": "mia"}}
    assert httpx.post(f"{site.url}/api/runs/{run}/signals", json=body, headers=headers).status_code == 202

    expect(page.locator(".badge")).to_have_text("Completed")
    expect(page.get_by_label(re.compile("Reason"))).to_have_value("half a sent")
    expect(page.get_by_label(re.compile("Reason"))).to_be_focused()
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).last.click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("SW404")


def test_the_first_run_of_a_workflow_is_started_from_its_type(tabs: Tabs) -> None:
    tabs.watch.allowed = ("422 (Unprocessable",)
    page = tabs.open("runs")
    settled(page, "Runs")
    page.get_by_role("button", name="Start a run…").click()
    dialog = page.get_by_role("dialog", name="Start a run")
    dialog.get_by_role("radio", name=re.compile("order_fulfilment")).check()
    expect(dialog.get_by_label(re.compile("^Input"))).to_have_value(re.compile('"customer": ""'))
    dialog.get_by_label(re.compile("^Input")).fill('{"customer": "eve", "amount": "4O"}')
    dialog.get_by_role("button", name="Start a run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("amount")
    dialog.get_by_label(re.compile("^Input")).fill('{"customer": "eve", "amount": 4}')
    dialog.get_by_label(re.compile("^Key")).fill("typed-1")
    dialog.get_by_role("button", name="Start a run").click()
    page.get_by_role("link", name="Show", exact=True).click()
    settled(page, "typed-1")
    expect(page.locator(".badge")).to_have_text("Completed")


def test_a_form_from_the_type_starts_a_run_and_the_workflow_is_paused_and_resumed(open_page: Open) -> None:
    page = open_page("workflows")
    settled(page, "Workflows")
    page.get_by_role("link", name="order_fulfilment").press("Enter")
    settled(page, "order_fulfilment")
    form = page.get_by_role("form", name="Start a run")
    form.get_by_label(re.compile("^customer")).fill("fay")
    form.get_by_label(re.compile("^amount")).fill("4O")
    press(page, "Enter")
    expect(form.get_by_text("Write a whole number")).to_be_visible()
    expect(form.get_by_label(re.compile("^amount"))).to_be_focused()
    form.get_by_label(re.compile("^amount")).fill("4")
    expect(form.locator(".cmd code")).to_have_text("stepwell start order_fulfilment customer=fay amount:=4")
    form.get_by_role("button", name="JSON").click()
    expect(form.get_by_label(re.compile("^Input"))).to_have_value(re.compile('"amount": 4'))
    form.get_by_label(re.compile("^Key")).fill("formed-1")
    press(page, "Enter")
    page.get_by_role("link", name="Show", exact=True).click()
    settled(page, "formed-1")
    expect(page.locator(".badge")).to_have_text("Completed")

    page.goto("/workflows/poll_orders")
    settled(page, "poll_orders")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label(re.compile("Reason")).fill("the shop is shut")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("region", name="Why no run of it moves")).to_contain_text("the shop is shut")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()


def test_all_runs_of_an_error_are_redriven_and_two_of_them_compared(open_page: Open, site: Site) -> None:
    headers = {"authorization": f"Bearer {site.tokens[Role.OPERATOR]}"}
    for number in range(2):
        body = {"workflow": "hostile", "key": f"twice-{number}", "input": f"no such row {number}"}
        answer = httpx.post(f"{site.url}/api/runs", json=body, headers=headers)
        assert httpx.get(f"{site.url}/api/runs/twice-{number}/result?wait=20", headers=headers).status_code < 500, (
            answer
        )
    page = open_page('errors?q=error:"no+such+row"')
    settled(page, "Errors")
    press(page, "j", "Enter")
    expect(page.get_by_text("All 2 are runs of v1.")).to_be_visible()
    page.get_by_role("button", name="Redrive 2…").press("Enter")
    dialog = page.get_by_role("dialog", name="Redrive a group of runs")
    expect(dialog.locator(".cmd code")).to_have_text(re.compile(r"-o ids \w+ \| stepwell redrive -$"))
    dialog.get_by_role("button", name=re.compile("^Redrive 2")).press("Enter")
    expect(page.get_by_text("Redrive of 2 runs is ordered")).to_be_visible()

    page.get_by_role("link", name="Compare the newest two").press("Enter")
    settled(page, "Compare")
    expect(page.get_by_role("region", name="In a sentence")).to_contain_text("They went the same way until read")
    press(page, "p", "n")
    expect(page.get_by_role("button", name="read")).to_be_focused()
    page.get_by_label("Only differences").check()
    expect(page.get_by_role("button", name="read")).to_be_visible()
