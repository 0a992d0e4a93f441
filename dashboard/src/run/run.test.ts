import { describe, expect, it } from "vitest";
import { reasonOf, shownOf, wordOf } from "../statuses";
import { busySpans, find, graft, isWhole, placeOf, rowsOf } from "./places";
import { withdrawnIn } from "./published-tab";
import { pageAt } from "./record";
import { aFailure, anEntry, aNode, aRun, aTree, aWait, moment, START } from "./samples.test-data";
import { scaleOf } from "./scale";

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
      anEntry(5, "payment/card/charge~undo", { kind: "undo" }),
    ];
    const tree = rowsOf(run, placeOf(aTree(entries)), new Map(), START);

    expect(shape(tree.rows)).toEqual([
      "order failed",
      "  reserve undone",
      "  payment failed",
      "    card failed",
      "      charge failed",
      "undo undone",
      "  reserve undone",
      "  payment/card/charge undone",
    ]);
    expect(tree.failures).toEqual(["payment", "payment/card/charge"]);
    expect(tree.rows[3]?.span).toEqual([START + 150, START + 200]); // without the undo of a step in it
  });

  it("closes a long loop, and lists its exceptions", () => {
    const entries = Array.from({ length: 40 }, (_, place) =>
      anEntry(place + 1, `rows/~${place}/parse`, place === 23 ? { status: "failed", failure: aFailure() } : {}),
    );
    const closed = rowsOf(aRun(), placeOf(aTree(entries)), new Map(), START);
    const open = rowsOf(aRun(), placeOf(aTree(entries)), new Map([["rows", true]]), START);

    expect(shape(closed.rows)).toEqual(["order done", "  rows done", "    ~23 done", "      parse failed"]);
    expect(closed.rows[1]?.note).toBe("~0 … ~39");
    expect(closed.rows[1]?.marks.length).toBe(40);
    expect(open.rows.length).toBe(2 + 40 * 2);
  });

  it("shows what is waited for", () => {
    const run = aRun({ status: "waiting", ended_at: null });
    const tree = rowsOf(run, placeOf(aTree([anEntry(1, "reserve")], [aWait("decision"), aWait("push", { kind: "retry" })])), new Map(), START);

    expect(shape(tree.rows)).toEqual(["order waiting", "  reserve done", "  decision waiting", "  push retrying"]);
  });
});

describe("the tree of a long run", () => {
  const item = (number: number, changes = {}) => aNode(`rows/~${number}`, { number, entry: anEntry(number + 1, `rows/~${number}`, { kind: "item" }), ...changes });
  const long = () =>
    placeOf(
      aNode("", {
        count: 20_000, began_at: moment(0), ended_at: moment(9_000),
        below: [aNode("rows", { children: 20_000, began_at: moment(0), ended_at: moment(9_000), below: [item(0), item(7, { failed: 1 }), item(19_999)] })],
      }),
    );
  const open = new Map([["rows", true]]);

  it("is closed at first, and lists what it has of its exceptions", () => {
    const { rows } = rowsOf(aRun(), long(), new Map(), START);

    expect(rows.map((row) => row.key)).toEqual(["/", "rows", "rows/~7"]);
    expect(rows.map((row) => [row.position, row.siblings])).toEqual([[1, 1], [1, 1], [8, 20_000]]);
    expect(rows[1]?.marks).toEqual([]); // not of a part
  });

  it("has a row for each place, read or not, and takes those that are read later", () => {
    const root = long();
    const before = rowsOf(aRun(), root, open, START).rows;
    const at = before.findIndex((row) => row.unread?.number === 250);
    expect(before.length).toBe(20_002);
    expect([before[at]?.state, before[at]?.position, pageAt("rows", 250)]).toEqual(["unread", 251, { under: "rows", first: 200 }]);

    expect(graft(root, "rows", Array.from({ length: 100 }, (_, place) => item(200 + place)))).toBe(true);
    const after = rowsOf(aRun(), root, open, START).rows;
    expect([after.length, after[at]?.key, after[at]?.state]).toEqual([20_002, "rows/~250", "done"]);
    expect([find(root, "rows/~250")?.node.number, find(root, "rows/~300"), isWhole(root)]).toEqual([250, undefined, false]);
    expect(graft(root, "nowhere", [item(1)])).toBe(false);
  });

  it("folds no time of which it does not know what was done", () => {
    expect(busySpans(long())).toContainEqual([START, START + 9_000]);
  });
});

describe("a look into the past", () => {
  it("shows what had begun, and neither the failure nor the waits of now", () => {
    const run = aRun({ status: "failed", failure: aFailure({ path: "charge" }) });
    const tree = aTree([anEntry(1, "reserve")]);
    tree.below.push(aNode("charge", { number: 1, open_since: moment(150), is_moving: true }));
    Object.assign(tree, { children: 2, is_moving: true });
    const { rows } = rowsOf(run, placeOf(tree), new Map(), START, START + 200);

    expect(shape(rows)).toEqual(["order running", "  reserve done", "  charge running"]);
    expect(rows[0]?.span).toEqual([START, START + 200]);
  });
});

describe("a stream", () => {
  it("knows which lines were withdrawn when a step began again", () => {
    const line = (offset: number, kind: "item" | "reset", source: string, since: number | null = null) => ({ offset, kind, source, since, value: offset });
    const lines = [line(1, "item", "a"), line(2, "item", "b"), line(3, "item", "a"), line(4, "reset", "a", 2), line(5, "item", "a")];

    expect([...withdrawnIn(lines)]).toEqual([3]);
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
