import { describe, expect, it } from "vitest";
import { command, target, withInput, word } from "./shell";

describe("a word of a command line", () => {
  // The same texts as in tests/unit/test_advice.py: both write what a shell reads back.
  it.each([
    ["order-1", "order-1"],
    ["", "''"],
    ["a b", "'a b'"],
    ["it's", `'it'"'"'s'`],
    ["$(rm -rf /)", "'$(rm -rf /)'"],
    ["a\u001b[31mb", "$'a\\x1b[31mb'"],
    ["a\u202eb", "$'a\\u202eb'"],
    ["line\nbreak", "$'line\\x0abreak'"],
    ["été", "'été'"],
    ["\u{e0001}", "$'\\U000e0001'"],
  ])("%j is written as %s", (text, expected) => {
    expect(word(text)).toBe(expected);
  });

  it("that begins with a dash is no option", () => {
    expect(target("-rf", "x")).toBe("-- -rf x");
    expect(command("cancel", ["--reason", "a b"], false, target("r-1"))).toBe("stepwell cancel --reason 'a b' r-1");
  });
});

describe("a command with an input", () => {
  it("has its fields as words, and a text without quotes", () => {
    expect(withInput("stepwell start w", '{"customer": "ann lee", "amount": 42}')).toBe(
      "stepwell start w 'customer=ann lee' amount:=42",
    );
  });

  it("has what is no object by a pipe", () => {
    expect(withInput("stepwell signal r n", "[1, 2]")).toBe("echo '[1,2]' | stepwell signal r n -");
    expect(withInput("stepwell signal r n", '{"a=b": 1}')).toBe(`echo '{"a=b":1}' | stepwell signal r n -`);
    expect(withInput("stepwell signal r n", "null")).toBe("stepwell signal r n");
    expect(withInput("stepwell signal r n", "{")).toBe("stepwell signal r n JSON");
  });
});
