import { afterEach, describe, expect, it } from "vitest";
import { count, distance, duration, fullTime, number, roughly, shortTime, size } from "./formats";
import { zone } from "./settings";

afterEach(() => {
  zone.value = "utc";
});

describe("a duration", () => {
  it.each([
    [410, "0.41 s"],
    [12_340, "12.3 s"],
    [62_000, "1 min 02 s"],
    [3_600_000 + 65_000, "1 h 01 min"],
    [2 * 86_400_000 + 3 * 3_600_000, "2 d 03 h"],
    [-5, "0.00 s"],
  ])("of %d ms is %s", (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it("has one part in a sentence", () => {
    expect([roughly(42_000), roughly(240_000), roughly(7_200_000), roughly(3 * 86_400_000)]).toEqual([
      "42 s", "4 min", "2 h", "3 d",
    ]);
    expect([distance(10_000, 5_000), distance(0, 60_000), distance(5_000, 5_400)]).toEqual(["in 5 s", "1 min ago", "now"]);
  });
});

describe("a time", () => {
  const at = Date.UTC(2026, 10, 17, 9, 12, 4, 118);

  it("is short in a table, by how far it is", () => {
    expect(shortTime(at, at)).toBe("09:12:04");
    expect(shortTime(at, at + 86_400_000)).toBe("17 Nov 09:12");
    expect(shortTime(at, at + 366 * 86_400_000)).toBe("17 Nov 2026");
  });

  it("is whole with its zone", () => {
    expect(fullTime(at, { exact: true })).toBe("17 Nov 2026 09:12:04.118 UTC");
  });
});

it("numbers have thin spaces, and sizes are those of the JSON", () => {
  expect(number(1_284_310)).toBe("1\u202f284\u202f310");
  expect([count(1, "run"), count(2, "run")]).toEqual(["1 run", "2 runs"]);
  expect([size("é"), size("x".repeat(2_000)), size(undefined)]).toEqual(["4 B", "2.0 kB", "0 B"]);
});
