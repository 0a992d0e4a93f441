import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { initialValues, offer, type Values } from "../acts";
import { Problem } from "../api";
import { filterOf, inOrder, sentenceOf } from "../pages/alerts";
import { hexDump } from "../pages/dead-letters";
import { countFates, fateOf } from "../parts/outcomes";
import { type Alert, alertActs, conditionOf, offersOf as alertOffers } from "./alerts";
import { dropAll, type Letter, letterActs, offersOf as letterOffers, payloadOf, retryAll } from "./letters";
import { changesOf, localTick, offersOf, type Schedule, scheduleActs, timesOf, typedSpan } from "./schedules";

const SCHEDULE: Schedule = {
  name: "nightly", state: "active", workflow: "report", when: "At 06:00", cron: "0 6 * * *", every_seconds: null, offset_seconds: null,
  fires_at: null, timezone: "Europe/Berlin", input: { day: 1 }, overlap: "skip", catch_up: "latest", window_seconds: 3_600, jitter_seconds: 30,
  is_in_code: true, differences: [], next_at: null, due_at: null, held: null, outcomes: [], problem: null, by: "", reason: "",
  created_at: "2026-11-19T00:00:00Z", updated_at: "2026-11-19T00:00:00Z", unreadable: "",
};
const ALERT: Alert = {
  name: "orders fail", state: "firing", rule: "order: 5 failures within 10m", kind: "count", workflow: "order", count: 5, within_seconds: 600,
  value: 7, runs: [], since: "2026-11-19T00:00:00Z", last_at: null, fired: 1, seen_by: "", note: "", muted_until: null, muted_by: "", by: "",
  changed_at: null, unreadable: "",
};
const LETTER: Letter = {
  letter: "signal-1", kind: "signal", code: "SW310", reason: "no", fix: "edit it", name: "approve", run_id: "r-1", workflow: "order", key: "o-1",
  target: "r-1", worker: "w", at: "2026-11-19T00:00:00Z", died_at: "2026-11-19T00:00:00Z", attempts: 1, payload: { amount: "many" },
};

let sent: { method: string; url: string; body: unknown }[] = [];

beforeEach(() => {
  sent = [];
  vi.stubGlobal(
    "fetch",
    vi.fn(async (url: URL, init: RequestInit = {}) => {
      sent.push({ method: init.method ?? "GET", url: url.pathname + url.search, body: init.body ? JSON.parse(String(init.body)) : undefined });
      const answer = url.pathname.endsWith("schedule-times")
        ? { when: "At 06:00 every day", ticks: [{ fire_time: "2030-11-20T05:00:00Z", local_time: "2030-11-20T06:00:00+01:00", starts_at: "", note: "the clocks change" }] }
        : { changed: true, name: "x", when: "", handled: 2, failed: {}, letters: [LETTER], next: null };
      return new Response(JSON.stringify(answer), { status: 200, headers: { "content-type": "application/json" } });
    }),
  );
});
afterEach(() => vi.unstubAllGlobals());

function typed(one: Parameters<typeof initialValues>[0], values: Values): Values {
  return { ...initialValues(one, values), ...values };
}

describe("schedules", () => {
  it("are made at times of one kind", () => {
    expect(timesOf({ kind: "cron", cron: " 0 6 * * * ", timezone: "Europe/Berlin", every: "5m" })).toEqual({ cron: "0 6 * * *", timezone: "Europe/Berlin" });
    expect(timesOf({ kind: "every", every: "5m", offset: "" })).toEqual({ every: "5m" });
    expect(timesOf({ kind: "at", at: "2026-12-31T08:00", timezone: "Asia/Tokyo" })).toEqual({ at: "2026-12-31T08:00", timezone: "Asia/Tokyo" });
    expect(timesOf({ kind: "at", at: "2026-12-31T08:00:00Z", timezone: "Asia/Tokyo" })).toEqual({ at: "2026-12-31T08:00:00Z" });
  });

  it("are changed only in the parts that differ, and the command says the same", () => {
    const edit = offersOf(SCHEDULE).find((one) => one.act.name === "edit_schedule");
    if (!edit) throw new Error("it cannot be edited");
    const same = typed(edit, {});
    expect(changesOf(SCHEDULE, same)).toEqual({});
    const other = typed(edit, { jitter: "2m", window: "" });
    expect(changesOf(SCHEDULE, other)).toEqual({ jitter: "2m", window: null });
    expect(edit.act.command(SCHEDULE, other)).toBe("stepwell schedule update --jitter 2m nightly");
    const input = typed(edit, { input: '{"day": 2}' });
    expect(changesOf(SCHEDULE, input)).toEqual({ input: { day: 2 } });
    expect(edit.act.command(SCHEDULE, input)).toBe("stepwell schedule update nightly day:=2");
    expect(() => changesOf(SCHEDULE, typed(edit, { input: "{" }))).toThrow(Problem);
  });

  it("never get an input that was hidden", () => {
    const blind = { ...SCHEDULE, input: { hidden: true } };
    const edit = offersOf(blind).find((one) => one.act.name === "edit_schedule");
    if (!edit) throw new Error("it cannot be edited");
    const values = typed(edit, { jitter: "1m" });
    expect("input" in values).toBe(false);
    expect(changesOf(blind, values)).toEqual({ jitter: "1m" });
  });

  it("show their next ticks before they are stored", async () => {
    const make = offer(scheduleActs.create, []);
    const plan = await scheduleActs.create.plan?.([], typed(make, { name: "n", workflow: "report" }));
    expect(plan).toEqual({
      groups: [{ title: "At 06:00 every day", none: "It is never due again.", lines: [{ icon: "schedules", text: "Wed 20 Nov 2030 06:00", note: "05:00 UTC · the clocks change" }] }],
    });
    expect(sent.map((one) => one.method)).toEqual(["GET"]);
  });

  it("of the code cannot be deleted, and paused ones are resumed first", () => {
    const names = (one: Schedule) => offersOf(one).map((each) => each.act.name);
    expect(names(SCHEDULE)).toEqual(["trigger_schedule", "backfill_schedule", "edit_schedule", "pause_schedule"]);
    expect(names({ ...SCHEDULE, state: "paused", is_in_code: false })).toEqual([
      "resume_schedule", "trigger_schedule", "backfill_schedule", "edit_schedule", "delete_schedule",
    ]);
  });

  it("count what became of their ticks", () => {
    const outcome = (kind: string, run_status: string | null) => ({ fire_time: `${kind} ${run_status}`, kind, at: "", run_id: null, run_status, note: "", until: null });
    const all = [outcome("started", "completed"), outcome("started", "failed"), outcome("skipped", "waiting"), outcome("started", null), outcome("triggered", "running"), outcome("failed", null)];
    expect(all.map(fateOf)).toEqual(["completed", "failed", "none", "gone", "running", "failed"]);
    expect(countFates(all)).toBe("1 completed, 2 failed, 1 running, 1 started nothing, 1 pruned");
    expect(countFates(all, true)).toBe("2 failed, 1 started nothing");
  });

  it("show ticks by the clocks of their zone", () => {
    expect(localTick("2030-03-31T02:30:00+02:00")).toBe("Sun 31 Mar 2030 02:30");
    expect(localTick("2030-03-31T02:30:07+02:00")).toBe("Sun 31 Mar 2030 02:30:07");
    expect([90, 3_600, 86_400, null].map(typedSpan)).toEqual(["90s", "1h", "1d", ""]);
  });
});

describe("alerts", () => {
  it("say what they found in a sentence, and find the runs", () => {
    expect(sentenceOf(ALERT)).toBe("order failed 7 times in the last 10 min; the rule says 5.");
    expect(sentenceOf({ ...ALERT, kind: "oldest_ready", workflow: null, value: 1_320, within_seconds: 900 })).toBe("A run has been due for 22 min without a worker; the rule says 15 min.");
    expect(filterOf(ALERT)).toBe("workflow:order status:failed,compensated,rollback_incomplete since:10m");
    expect(filterOf({ ...ALERT, kind: "stalled" })).toBe("");
  });

  it("that fire come first, and muted ones after them", () => {
    const quiet = { ...ALERT, name: "a", state: "ok" as const };
    const muted = { ...ALERT, name: "b", muted_until: "2999-01-01T00:00:00Z" };
    expect(inOrder([quiet, muted, ALERT]).map((one) => one.name)).toEqual(["orders fail", "b", "a"]);
    expect(alertOffers(muted).map((one) => one.act.name)).toEqual(["acknowledge_alert", "unmute_alert", "test_alert", "delete_alert"]);
    expect(alertOffers(quiet).map((one) => one.act.name)).toEqual(["mute_alert", "test_alert", "delete_alert"]);
  });

  it("are made with exactly one condition, and the command says the same", () => {
    expect(conditionOf({ kind: "count", workflow: "order", least: "5", within: "10m" })).toEqual({ workflow: "order", count: 5, within: "10m" });
    expect(conditionOf({ kind: "stalled", workflow: "", within: "1d" })).toEqual({ stalled: "1d" });
    expect(conditionOf({ kind: "rollback_incomplete" })).toEqual({ rollback_incomplete: true });
    const values = { name: "orders fail", kind: "count", workflow: "order", least: "5", within: "10m" };
    expect(alertActs.create.command([], values)).toBe("stepwell alert create --workflow order --count 5 --within 10m 'orders fail'");
    expect(alertActs.create.command([], { name: "x", kind: "failed", workflow: "" })).toBe("stepwell alert create --failed x");
  });
});

describe("letters", () => {
  it("offer first what can succeed", () => {
    const first = (kind: string) => letterOffers({ ...LETTER, kind })[0]?.act.name;
    expect(["event", "signal", "hook", "poison", "unserved"].map(first)).toEqual(["retry_letter", "edit_letter", "edit_letter", "retry_letter", "drop_letter"]);
  });

  it("are edited from what was sent", () => {
    expect(JSON.parse(payloadOf(LETTER))).toEqual({ amount: "many" });
    expect(JSON.parse(payloadOf({ ...LETTER, kind: "event", payload: { event_id: "e", payload: [1] } }))).toEqual([1]);
    expect(JSON.parse(payloadOf({ ...LETTER, kind: "hook", payload: '{"a": 1}' }))).toEqual({ a: 1 });
    expect(JSON.parse(payloadOf({ ...LETTER, kind: "hook", payload: "no JSON" }))).toBe("no JSON");
    expect(payloadOf({ ...LETTER, payload: { hidden: true } })).toBe("null");
    expect(letterActs.edit.command(LETTER, { payload: '{"amount": 7}', to: "o-2" })).toBe("stepwell dlq edit --to o-2 signal-1 amount:=7");
  });

  it("are not dropped without a reason, which would retry them", async () => {
    await expect(dropAll.send({ kind: "" }, { kind: "", reason: "  " })).rejects.toThrow(Problem);
    expect(sent).toEqual([]);
    await dropAll.send({ kind: "" }, { kind: "hook", reason: "noise" });
    expect(sent[0]).toEqual({ method: "POST", url: "/api/dead-letters/all", body: { kind: "hook", reason: "noise" } });
    expect(dropAll.command({ kind: "" }, { kind: "hook", reason: "noise" })).toBe("stepwell dlq drop --all --kind hook --reason noise");
  });

  it("are listed before many of them are handled", async () => {
    const plan = await retryAll.plan?.({ kind: "" }, { kind: "signal" });
    expect(plan).toMatchObject({ groups: [{ title: "1 letter", lines: [{ text: "Signal approve for o-1", note: "no" }] }] });
    expect(sent[0]?.url).toBe("/api/dead-letters?kind=signal&limit=500");
  });

  it("show their bytes", () => {
    expect(hexDump(new TextEncoder().encode('{"a": "é"}'))).toBe('000000  7b 22 61 22 3a 20 22 c3 a9 22 7d                 {"a": "··"}');
    expect(hexDump(new Uint8Array(100), 2).split("\n")).toHaveLength(2);
  });
});
