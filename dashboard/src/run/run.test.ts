import { describe, expect, it } from "vitest";
import type { Run } from "../api";
import { reasonOf, shownOf, wordOf } from "../statuses";
import { rowsOf } from "./places";
import { aFailure, anEntry, aRun, aWait, moment, START } from "./samples.test-data";
import { scaleOf } from "./scale";
import { undoStack } from "./undo-tab";

const shape = (rows: ReturnType<typeof rowsOf>["rows"]) => rows.map((row) => `${"  ".repeat(row.level - 1)}${row.name} ${row.state}`);

describe("the tree of a run", () => {
  it("has groups above their steps, and the undos beside them", () => {
    const failure = aFailure({ type: "JoinError", path: "payment", causes: { card: aFailure({ path: "payment/card/charge" }) } });
    const run = aRun({ status: "compensated", failure });
    const entries = [
      anEntry(1, "reserve", { can_undo: true, is_undone: true }),
      anEntry(2, "payment/card/charge", { status: "failed", failure: aFailure() }),
      anEntry(3, "payment", { kind: "join", status: "failed", failure }),
      anEntry(4, "reserve~undo", { kind: "undo" }),
    ];
    const tree = rowsOf(run, entries, [], new Map(), START);

    expect(shape(tree.rows)).toEqual([
      "order failed",
      "  reserve undone",
      "  payment failed",
      "    card failed",
      "      charge failed",
      "undo undone",
      "  reserve undone",
    ]);
    expect(tree.failures).toEqual(["payment", "payment/card/charge"]);
  });

  it("closes a long loop, and lists its exceptions", () => {
    const entries = Array.from({ length: 40 }, (_, place) =>
      anEntry(place + 1, `rows/~${place}/parse`, place === 23 ? { status: "failed", failure: aFailure() } : {}),
    );
    const closed = rowsOf(aRun(), entries, [], new Map(), START);
    const open = rowsOf(aRun(), entries, [], new Map([["rows", true]]), START);

    expect(shape(closed.rows)).toEqual(["order done", "  rows done", "    ~23 done", "      parse failed"]);
    expect(closed.rows[1]?.note).toBe("~0 … ~39");
    expect(closed.rows[1]?.marks.length).toBe(40);
    expect(open.rows.length).toBe(2 + 40 * 2);
  });

  it("shows what is waited for", () => {
    const run = aRun({ status: "waiting", ended_at: null });
    const tree = rowsOf(run, [anEntry(1, "reserve")], [aWait("decision"), aWait("push", { kind: "retry" })], new Map(), START);

    expect(shape(tree.rows)).toEqual(["order waiting", "  reserve done", "  decision waiting", "  push retrying"]);
  });
});

describe("the undo stack", () => {
  it("is in the order of a rollback", () => {
    const entries = [
      anEntry(1, "reserve", { can_undo: true }),
      anEntry(2, "authorise", { can_undo: true, is_undone: true }),
      anEntry(3, "ship"),
      anEntry(4, "authorise~undo", { kind: "undo", attempts: 2 }),
    ];
    const states = (run: Run) => undoStack(run, entries).map((one) => `${one.entry.path} ${one.state}`);

    expect(states(aRun({ status: "compensation_failed", ended_at: null, failure: aFailure({ path: "reserve~undo" }) }))).toEqual([
      "authorise undone",
      "reserve failed",
    ]);
    expect(states(aRun({ status: "waiting", ended_at: null }))).toEqual(["authorise undone", "reserve possible"]);
    expect(states(aRun())).toEqual(["authorise undone", "reserve notUndone"]);
  });
});

describe("the axis of a timeline", () => {
  it("folds long idle time, and goes back from places to times", () => {
    const scale = scaleOf([[0, 1_000], [3_600_000, 3_601_000]], 0, 3_601_000, true);

    expect(scale.folds.length).toBe(1);
    expect(scale.x(1_000)).toBeCloseTo(43);
    expect(scale.x(3_600_000)).toBeCloseTo(57);
    expect(scale.x(3_601_000)).toBeCloseTo(100);
    expect(scale.at(scale.x(500))).toBeCloseTo(500);
  });

  it("folds nothing where nothing was done, or when it is told not to", () => {
    expect(scaleOf([], 0, 3_600_000, true).folds).toEqual([]);
    expect(scaleOf([[0, 10]], 0, 3_600_000, false).x(1_800_000)).toBeCloseTo(50);
    expect(scaleOf([], 5, 5, true).x(5)).toBe(0);
  });
});

describe("a status", () => {
  it("is said as specifically as it is known", () => {
    const waiting = aRun({ status: "waiting", ended_at: null });
    const retry = aWait("push", { kind: "retry", failed_attempts: [{ number: 1, at: moment(0), error: "", next_at: null }] });

    expect(wordOf(waiting)).toBe("Waiting");
    expect(wordOf(waiting, [aWait("decision")])).toBe("Waiting for a signal");
    expect([shownOf(waiting, [retry]), wordOf(waiting, [retry])]).toEqual(["retrying", "Attempt 2 follows"]);
    expect(wordOf(aRun({ status: "paused", hold: { by: "bo", reason: "", at: moment(0) } }))).toBe("Paused by bo");
    expect(shownOf(aRun({ status: "failed", failure: aFailure({ code: "SW471" }) }))).toBe("timed_out");
  });

  it("has the reason of the failure at the bottom, at its path in this run", () => {
    const child = aFailure({ type: "ChildFailed", code: "SW454", path: "ledger", causes: { child: aFailure({ path: "inside/the/child" }) } });
    const stopped = aFailure({ type: "Fatal", message: "503", path: "reserve~undo", causes: { run: aFailure({ path: "charge" }) } });

    expect(reasonOf(aRun({ status: "failed", failure: child }))).toEqual({ path: "ledger", text: "CardDeclined: no funds" });
    expect(reasonOf(aRun({ status: "compensation_failed", failure: stopped }))).toEqual({ path: "reserve", text: "not undone: Fatal: 503" });
    expect(reasonOf(aRun({ unreadable: "the row is damaged" }))).toEqual({ path: "", text: "the row is damaged" });
    expect(reasonOf(aRun())).toEqual({ path: "", text: "" });
  });
});
