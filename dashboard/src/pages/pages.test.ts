import { expect, it } from "vitest";
import { actOf, type Advice, type Finding } from "../acts/findings";
import { type Group, withStatus } from "../acts/groups";
import { commandOf } from "../acts";
import { filterWord } from "../place";
import { byUrgency } from "./doctor";
import { offersOf } from "./errors";
import { shareOf, summariesOf } from "./workflows";

const HOLD = { by: "ann", reason: "", at: "2026-01-01T00:00:00Z" };

function workflow(name: string, version: number, is_newest = true) {
  return { name, version, is_newest, is_known_here: true, takes_input: true, input: null, output: null, signals: null, summary: "", needs_input: null, sample: null, source: "" };
}

function version(name: string, number: number, more: object) {
  const none = { live: 0, waiting: 0, redrivable: 0, runs: {}, served_by: [], last_at: null, is_unserved: false, may_retire: false, reason: "" };
  return { workflow: name, version: number, ...none, ...more };
}

it("a workflow is the sum of its versions", () => {
  const versions = [
    version("order", 2, { live: 3, served_by: ["w-2", "w-1"], runs: { completed: 5, failed: 1 }, last_at: "2026-01-02T00:00:00Z" }),
    version("order", 1, { live: 2, is_unserved: true, runs: { compensated: 2, compensation_failed: 1 }, last_at: "2026-01-01T00:00:00Z" }),
    version("other", 1, { live: 9 }),
  ];
  const [order, ...more] = summariesOf([workflow("order", 2), workflow("order", 1, false), workflow("stepwell.bulk", 1)], versions, []);

  expect(more).toEqual([]);
  expect(order).toMatchObject({ live: 5, completed: 5, failed: 4, workers: ["w-1", "w-2"], unserved: 2, hold: undefined, lastAt: "2026-01-02T00:00:00Z" });
});

it("a workflow is also held by a hold of every workflow", () => {
  const holds = [{ workflow: null, ...HOLD }, { workflow: "b", ...HOLD, by: "bo" }];
  const rows = summariesOf([workflow("a", 1), workflow("b", 1)], [], holds);

  expect(rows.map((row) => row.hold?.by)).toEqual(["ann", "bo"]);
});

it("a share is 0 or 100 only if it is exactly that", () => {
  expect([shareOf(0, 9), shareOf(9, 9), shareOf(1, 100_000), shareOf(99_999, 100_000), shareOf(1, 3)]).toEqual(["0", "100", "0.1", "99.9", "33.3"]);
});

it("a name in a filter stands for itself", () => {
  expect([filterWord("order_v2.x"), filterWord('a "b" *')]).toEqual(["order_v2.x", '"a \\"b\\" *"']);
});

it("advice with one request is a button with its command; other advice is not", () => {
  const advice = (verb: string): Advice => ({ verb, target: "order 1", options: {}, note: "", method: "POST", path: "/api/x", command: `stepwell ${verb} 'order 1'` });
  const retry = actOf(advice("retry"));

  expect(retry && [retry.act.label, commandOf(retry)]).toEqual(["Retry order 1", "stepwell retry 'order 1'"]);
  expect([actOf(advice("worker")), actOf(advice("why")), actOf(advice("trigger delete"))]).toEqual([undefined, undefined, undefined]);
});

it("the worst finding comes first", () => {
  const finding = (check: string, verdict: Finding["verdict"]): Finding => ({ check, verdict, found: "", why: "", fix: "", advice: [], filter: "", runs: null, remedy: null, examples: [] });
  const found = byUrgency([finding("a", "ok"), finding("b", "warn"), finding("c", "fail"), finding("d", "warn")]);

  expect(found.map((one) => one.check)).toEqual(["c", "b", "d", "a"]);
});

it("a group is redriven by its fingerprint, whatever the filter asked for", () => {
  const group = { fingerprint: "3f2c", statuses: { failed: 2, compensated: 4, compensation_failed: 1 } } as unknown as Group;
  const offers = offersOf(group, 'status:failed,compensated error:"a b"');

  expect(offers.map((one) => one.act.label)).toEqual(["Resume 1 rollback…", "Redrive 2…"]);
  expect(offers.map(commandOf)).toEqual([
    `stepwell failures '--where=error:"a b" status:compensation_failed' -o ids 3f2c | stepwell rollback resume -`,
    `stepwell failures '--where=error:"a b" status:failed' -o ids 3f2c | stepwell redrive -`,
  ]);
  expect(withStatus("", "failed")).toBe("status:failed");
});
