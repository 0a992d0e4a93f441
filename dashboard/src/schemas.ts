// JSON Schemas of inputs.

type Schema = Record<string, unknown>;

const DEPTH_MAX = 6;

/** An example of a value that a schema describes, to begin with. Null if nothing is known. */
export function exampleOf(schema: Schema | null | undefined, definitions?: Schema, depth = 0): unknown {
  if (!schema || depth > DEPTH_MAX) return null;
  const known = definitions ?? (schema["$defs"] as Schema | undefined) ?? {};
  const name = typeof schema["$ref"] === "string" ? (schema["$ref"].split("/").at(-1) ?? "") : "";
  if (name) return exampleOf(known[name] as Schema, known, depth + 1);
  if ("default" in schema) return schema["default"];
  if (Array.isArray(schema["enum"])) return schema["enum"][0] as unknown;
  if ("const" in schema) return schema["const"];
  for (const kind of ["anyOf", "oneOf", "allOf"]) {
    const options = schema[kind];
    if (Array.isArray(options)) {
      const first = (options as Schema[]).find((one) => one["type"] !== "null") ?? (options[0] as Schema);
      return exampleOf(first, known, depth + 1);
    }
  }
  switch (schema["type"]) {
    case "object": {
      const properties = (schema["properties"] ?? {}) as Record<string, Schema>;
      return Object.fromEntries(
        Object.entries(properties).map(([one, inner]) => [one, exampleOf(inner, known, depth + 1)]),
      );
    }
    case "array":
      return [];
    case "string":
      return "";
    case "integer":
    case "number":
      return 0;
    case "boolean":
      return false;
    default:
      return null;
  }
}
