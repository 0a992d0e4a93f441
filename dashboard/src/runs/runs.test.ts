import { describe, expect, it } from "vitest";
import { bulkOffers, outlookOf } from "../acts/bulks";
import { Problem, type Run } from "../api";
import { correctedFilter, seenIn, suggest } from "../parts/filter";
import { aRun as run } from "../run/samples.test-data";
import { columnsOf, choices, DEFAULT } from "./columns";
import { sentence } from "./histogram";
import { hasRange, nextSort, sortedBy, sortOf, within, without, withTerm } from "./query";

describe("a filter that controls change", () => {
  it("keeps every other term as it was written", () => {
    const q = 'status:failed -tag:"a b" sort:-took';
    expect(without(q, "sort:")).toBe('status:failed -tag:"a b"');
    expect(sortedBy(q, "took")).toBe('status:failed -tag:"a b" sort:took');
    expect(sortedBy(q, "")).toBe('status:failed -tag:"a b"');
    expect(withTerm("", "status:failed")).toBe("status:failed");
  });

  it("has one order, which a head turns around and gives up", () => {
    expect(sortOf("status:failed SORT:-took")).toBe("-took");
    expect(["", "-took", "took"].map((sort) => nextSort(sort, "took"))).toEqual(["-took", "took", ""]);
    expect(nextSort("-created", "took")).toBe("-took");
  });

  it("has one range, in UTC", () => {
    const range = within("since:7d status:failed", new Date("2026-11-20T10:00:00.900Z"), new Date("2026-11-20T11:30:00Z"));
    expect(range).toBe("status:failed since:2026-11-20T10:00:00 until:2026-11-20T11:30:00");
    expect([hasRange(range), hasRange("status:failed")]).toEqual([true, false]);
  });
});

describe("a word that the server does not know", () => {
  const problem = (title: string, fix: string, where: string) => new Problem({ status: 400, title, fix, where });

  it("is replaced where it stands", () => {
    const field = problem("a filter has no field 'statsu'", "did you mean status? there are: …", "character 15 of the filter");
    expect(correctedFilter(field, "workflow:a -statsu:failed")).toBe("workflow:a -status:failed");
    const value = problem("'faild' is no state", "did you mean failed?", "character 8 of the filter");
    expect(correctedFilter(value, "status:faild sort:took")).toBe("status:failed sort:took");
  });

  it("is left alone without a proposal", () => {
    expect(correctedFilter(problem("a filter has no field 'x'", "there are: …", "character 0 of the filter"), "x:1")).toBeUndefined();
  });
});

describe("suggestions", () => {
  const runs = [run({ tags: { vip: "", region: "eu west" }, attributes: { amount: 3 }, workflow: "orders", key: "a-1" })];

  it("have the texts of runs that were seen", () => {
    const seen = seenIn(runs);
    expect(suggest("tag:", [], seen).map((one) => one.text)).toEqual(["tag:vip", 'tag:"region=eu west"']);
    expect(suggest("-workflow:o", ["other"], seen).map((one) => one.text)).toEqual(["-workflow:other", "-workflow:orders"]);
    expect(suggest("attr", [], seen).map((one) => one.text)).toEqual(["attr.amount:"]);
    expect(suggest("sort:-attr", [], seen).map((one) => one.text)).toEqual(["sort:-attr.amount"]);
  });
});

describe("columns", () => {
  it("stand in the order of the table, and those that are unknown are left out", () => {
    expect(columnsOf(["took", "nothing", "attr.amount", "status"]).map((one) => one.name)).toEqual(["status", "attr.amount", "took"]);
    expect(columnsOf(DEFAULT)).toHaveLength(6);
  });

  it("can be every attribute of the runs that are shown", () => {
    const names = choices([run({ attributes: { b: 1, a: true } })], ["attr.c"]).map((one) => one.name);
    expect(names.slice(-3)).toEqual(["attr.a", "attr.b", "attr.c"]);
  });
});

describe("acts on many runs", () => {
  const runs: Run[] = [run({ run_id: "1", status: "failed" }), run({ run_id: "2", status: "failed" }), run({ run_id: "3", status: "waiting" })];

  it("say how many of the chosen runs they suit", () => {
    const labels = bulkOffers({ runs, where: null }).map((one) => one.act.label);
    expect(labels).toEqual(["Redrive 2…", "Retry 2…", "Pause 1…", "Cancel 1…"]);
    expect(bulkOffers({ runs: [run({ status: "completed" })], where: null })).toEqual([]);
  });

  it("have the command that does the same", () => {
    const [redrive] = bulkOffers({ runs, where: null });
    expect(redrive?.act.command(redrive.target, { version: "new", reason: "it's fixed" })).toBe(
      "echo 1 2 3 | stepwell redrive --version new --reason 'it'\"'\"'s fixed' -",
    );
    const cancel = bulkOffers({ runs: [], where: "status:waiting until:7d" }).at(-1);
    expect(cancel?.act.command(cancel.target, { compensate: false })).toBe("stepwell cancel '--where=status:waiting until:7d' --now");
  });

  it("ask for the number of runs before they cancel many", () => {
    const names = (where: string | null, chosen: Run[]) =>
      bulkOffers({ runs: chosen, where }).at(-1)?.act.fields?.({ runs: chosen, where }, {}).map((field) => field.name);
    expect(names("status:waiting", [])).toEqual(["compensate", "reason", "count"]);
    expect(names(null, [run({ status: "waiting" })])).toEqual(["compensate", "reason"]);
  });

  it("tell apart what they would do and what is refused", () => {
    const plan = { matched: 3, statuses: { failed: 2, waiting: 1 }, samples: [{ run_id: "1", key: "a", workflow: "w", version: 1, status: "failed" }] };
    const found = outlookOf("retry", "Retry", plan as never, { runs: [], where: "" });
    expect(found.groups.map((group) => [group.title, group.lines.map((line) => line.text), group.more])).toEqual([
      ["Retry: 2", ["2 Failed"], undefined],
      ["Refused, because of their state: 1", ["1 Waiting"], undefined],
      ["Such as", ["a · w"], 2],
    ]);
    expect(found.warnings).toHaveLength(1);
  });
});

it("a histogram is a sentence", () => {
  const bins = [
    { at: "2026-11-20T10:00:00Z", runs: 2, failed: 0 },
    { at: "2026-11-20T11:00:00Z", runs: 1204, failed: 7 },
  ];
  const found = { since: "2026-11-20T10:00:00Z", until: "2026-11-20T12:00:00Z", seconds: 3_600, bins, counted_since: "2026-11-20T10:00:00Z", is_whole: true };
  expect(sentence(found)).toBe(
    "1\u202f206 runs created from 20 Nov 2026 10:00:00 UTC to 20 Nov 2026 12:00:00 UTC, 7 of them failed. Most: 1\u202f204 at 20 Nov 2026 11:00:00 UTC.",
  );
});
