// Forms from JSON Schemas: the fields of an input, and the value that they make.
//
// A field that a form cannot ask for plainly (a list, a structure, one of several types) is asked for as JSON.

import type { Values } from "./acts";
import { exampleOf } from "./schemas";
import { words } from "./words";

export type Schema = Record<string, unknown>;

export interface InputField {
  name: string;
  /** Of the author, in grey beside the name. */
  type: string;
  kind: "text" | "whole" | "number" | "check" | "choice" | "json";
  isRequired: boolean;
  /** An empty field is null. */
  isNullable: boolean;
  help: string;
  /** As JSON. */
  options: string[];
  initial: string | boolean;
}

const said = words.form;
const FORMATS: Record<string, string> = { "date-time": "time", date: "date", time: "time of day", duration: "duration", uuid: "UUID", decimal: "decimal" };

/** The fields of an input, or null if only JSON can say it. */
export function fieldsOf(schema: Schema | null | undefined): InputField[] | null {
  if (!schema) return null;
  const names = (schema["$defs"] ?? {}) as Record<string, Schema>;
  const found = resolved(schema, names);
  const properties = found["properties"] as Record<string, Schema> | undefined;
  if (found["type"] !== "object" || !properties || typeof found["additionalProperties"] === "object") return null;
  const required = (found["required"] ?? []) as string[];
  return Object.entries(properties).map(([name, inner]) => fieldOf(name, inner, required.includes(name), names));
}

function resolved(schema: Schema, names: Record<string, Schema>): Schema {
  const reference = schema["$ref"];
  if (typeof reference !== "string") return schema;
  const { $ref: _, ...own } = schema;
  return { ...names[reference.split("/").at(-1) ?? ""], ...own };
}

function fieldOf(name: string, given: Schema, isRequired: boolean, names: Record<string, Schema>): InputField {
  const options = ((given["anyOf"] ?? given["oneOf"]) as Schema[] | undefined) ?? [];
  const others = options.filter((one) => one["type"] !== "null");
  const isNullable = others.length < options.length;
  const schema = resolved(others.length === 1 ? { ...others[0], ...without(given, "anyOf", "oneOf") } : given, names);
  const field = {
    name,
    isRequired,
    isNullable,
    help: typeof schema["description"] === "string" ? schema["description"] : "",
    options: [] as string[],
  };
  const start = "default" in given ? given["default"] : isNullable ? null : exampleOf(schema, names);
  const text = start === null ? "" : String(start);
  const values = schema["enum"];
  if (Array.isArray(values)) {
    const spelled = values.map((one) => JSON.stringify(one) ?? "null");
    const first = start === null && isNullable ? "null" : (JSON.stringify(start) ?? spelled[0] ?? "");
    return { ...field, kind: "choice", type: "", options: isNullable && !spelled.includes("null") ? [...spelled, "null"] : spelled, initial: first };
  }
  switch (others.length > 1 ? "" : schema["type"]) {
    case "string":
      return { ...field, kind: "text", type: FORMATS[String(schema["format"] ?? "")] ?? (schema["contentEncoding"] ? "base64" : "text"), initial: text };
    case "integer":
      return { ...field, kind: "whole", type: said.whole, initial: text };
    case "number":
      return { ...field, kind: "number", type: said.number, initial: text };
    case "boolean":
      if (!isNullable) return { ...field, kind: "check", type: "", initial: start === true };
  }
  return { ...field, kind: "json", type: "JSON", initial: JSON.stringify(start ?? null) };
}

function without(schema: Schema, ...names: string[]): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !names.includes(name)));
}

/** What the fields begin with. */
export function initialOf(fields: InputField[]): Values {
  return Object.fromEntries(fields.map((field) => [field.name, field.initial]));
}

export interface Filled {
  value: Record<string, unknown>;
  /** What is wrong, by field. */
  errors: Record<string, string>;
}

/** The value that the fields make. What nobody has touched is left out if the input has a default for it. */
export function filledIn(fields: InputField[], values: Values): Filled {
  const filled: Filled = { value: {}, errors: {} };
  for (const field of fields) {
    const given = values[field.name] ?? field.initial;
    if (!field.isRequired && given === field.initial) continue;
    const [value, error] = read(field, given);
    if (error) filled.errors[field.name] = error;
    else filled.value[field.name] = value;
  }
  return filled;
}

function read(field: InputField, given: string | boolean): [unknown, string] {
  if (typeof given === "boolean") return [given, ""];
  const text = given.trim();
  if (field.isNullable && text === "") return [null, ""];
  switch (field.kind) {
    case "whole":
      if (!/^[+-]?\d+$/.test(text)) return [undefined, said.notWhole];
      return Number.isSafeInteger(Number(text)) ? [Number(text), ""] : [undefined, said.tooLarge];
    case "number":
      return text !== "" && Number.isFinite(Number(text)) ? [Number(text), ""] : [undefined, said.notNumber];
    case "choice":
    case "json":
      try {
        return [JSON.parse(text) as unknown, ""];
      } catch {
        return [undefined, said.notJson];
      }
    default:
      return [given, ""];
  }
}

/** The fields with a value that was written as JSON, or null if they cannot hold it. */
export function valuesOf(fields: InputField[], value: unknown): Values | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const known = new Map(fields.map((field) => [field.name, field]));
  const values = initialOf(fields);
  for (const [name, one] of Object.entries(value)) {
    const field = known.get(name);
    if (!field) return null;
    if (field.kind === "choice" || field.kind === "json") values[name] = JSON.stringify(one);
    else if (one === null && field.isNullable) values[name] = "";
    else if (typeof one !== { text: "string", whole: "number", number: "number", check: "boolean" }[field.kind]) return null;
    else values[name] = field.kind === "check" ? one === true : String(one);
  }
  return values;
}

/** The fields with the values of a JSON text, or null if they cannot hold them. */
export function valuesIn(fields: InputField[], text: string): Values | null {
  try {
    return valuesOf(fields, JSON.parse(text));
  } catch {
    return null;
  }
}

/** How a form asks for a value: by its fields, or as one field; null if only JSON can say it. */
export interface Asked {
  fields: InputField[];
  /** The value is that of the only field. */
  isOne: boolean;
}

const ONE = "value";

export function askedOf(schema: Schema | null | undefined): Asked | null {
  const fields = fieldsOf(schema);
  if (!schema || fields?.length === 0) return null;
  if (fields) return { fields, isOne: false };
  const { $defs, ...own } = schema;
  const one = fieldsOf({ type: "object", properties: { [ONE]: own }, required: [ONE], ...($defs ? { $defs } : {}) }) ?? [];
  return one[0] && one[0].kind !== "json" ? { fields: one, isOne: true } : null;
}

/** The value that was filled in, as JSON, and what is wrong, by field. The text is empty then. */
export function textOf(asked: Asked, values: Values): { text: string; errors: Record<string, string> } {
  const { value, errors } = filledIn(asked.fields, values);
  if (Object.keys(errors).length > 0) return { text: "", errors };
  return { text: JSON.stringify(asked.isOne ? (value[ONE] ?? null) : value, null, 2), errors };
}

/** The fields with the value of a JSON text, or null if they cannot hold it. */
export function askedIn(asked: Asked, text: string): Values | null {
  if (!asked.isOne) return valuesIn(asked.fields, text);
  try {
    return valuesOf(asked.fields, { [ONE]: JSON.parse(text) as unknown });
  } catch {
    return null;
  }
}
