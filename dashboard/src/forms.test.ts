import { describe, expect, it } from "vitest";
import { fieldsOf, filledIn, initialOf, valuesOf } from "./forms";

const SCHEMA = {
  $ref: "#/$defs/Order",
  $defs: {
    Order: {
      type: "object",
      properties: {
        customer: { type: "string", description: "Name in the shop." },
        amount: { type: "integer" },
        rate: { type: "number", default: 1.5 },
        gift: { type: "boolean", default: false },
        size: { $ref: "#/$defs/Size" },
        note: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
        due: { type: "string", format: "date" },
        lines: { type: "array", items: { type: "string" }, default: [] },
        payment: { anyOf: [{ $ref: "#/$defs/Order" }, { type: "string" }] },
      },
      required: ["customer", "amount", "size", "due", "payment"],
    },
    Size: { enum: ["s", "m"] },
  },
};

const fields = fieldsOf(SCHEMA) ?? [];

describe("a form from the type of an input", () => {
  it("asks for each field in its own way", () => {
    expect(fields.map((field) => [field.name, field.kind, field.initial, field.isRequired])).toEqual([
      ["customer", "text", "", true],
      ["amount", "whole", "0", true],
      ["rate", "number", "1.5", false],
      ["gift", "check", false, false],
      ["size", "choice", '"s"', true],
      ["note", "text", "", false],
      ["due", "text", "", true],
      ["lines", "json", "[]", false],
      ["payment", "json", expect.any(String), true],
    ]);
    expect(fields[0]?.help).toBe("Name in the shop.");
    expect(fields[6]?.type).toBe("date");
  });

  it("is none for what has no fields", () => {
    expect(fieldsOf(null)).toBeNull();
    expect(fieldsOf({ type: "integer" })).toBeNull();
    expect(fieldsOf({ type: "object", additionalProperties: { type: "string" } })).toBeNull();
  });

  it("makes a value, and leaves out what nobody has touched and has a default", () => {
    const typed = { ...initialOf(fields), customer: " ann ", amount: "-42", due: "2026-01-31", payment: '{"card": 1}', note: "hi" };

    expect(filledIn(fields, typed)).toEqual({
      value: { customer: " ann ", amount: -42, size: "s", due: "2026-01-31", payment: { card: 1 }, note: "hi" },
      errors: {},
    });
  });

  it("says what is wrong with a field, and never rounds a number", () => {
    const typed = { ...initialOf(fields), amount: "4O", rate: "1,5", payment: "{" };
    expect(Object.keys(filledIn(fields, typed).errors)).toEqual(["amount", "rate", "payment"]);

    const large = filledIn(fields, { ...initialOf(fields), amount: "9007199254740993", payment: "1" });
    expect(large.errors["amount"]).toContain("cannot hold");
    expect(large.value).not.toHaveProperty("amount");
  });

  it("takes over what was written as JSON, if its fields can hold it", () => {
    const value = { customer: "ann", amount: 4, gift: true, note: null, lines: ["a"] };

    expect(valuesOf(fields, value)).toMatchObject({ customer: "ann", amount: "4", gift: true, note: "", lines: '["a"]' });
    expect(valuesOf(fields, { customer: 7 })).toBeNull();
    expect(valuesOf(fields, { other: 7 })).toBeNull();
    expect(valuesOf(fields, [1])).toBeNull();
  });
});
