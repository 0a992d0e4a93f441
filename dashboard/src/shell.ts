// Words of a shell's command line. Stored text in a command cannot run, nor control a terminal.

const SAFE = /^[\w@%+=:,./-]+$/;

/** One word. Characters that cannot be printed are written as bash, zsh and ksh read them. */
export function word(text: string): string {
  if (text === "") return "''";
  if (SAFE.test(text)) return text;
  if (isPrintable(text)) return `'${text.replace(/'/g, `'"'"'`)}'`;
  return `$'${[...text].map(spell).join("")}'`;
}

/** A command from its parts: a list is words to quote, and a text is taken as it is; empty parts are left out. */
export function command(...parts: (string | string[] | false | undefined)[]): string {
  const words: string[] = ["stepwell"];
  for (const part of parts)
    if (Array.isArray(part)) words.push(...part.map(word));
    else if (part) words.push(part);
  return words.join(" ");
}

/** The words of a target and what comes after it. A word that begins with a dash is not an option: behind `--` none is. */
export function target(...texts: string[]): string {
  const words = texts.map(word).join(" ");
  return texts.some((text) => text.startsWith("-")) ? `-- ${words}` : words;
}

/** A command with an input: its fields as words, or the whole of it by a pipe. */
export function withInput(line: string, json: string): string {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return `${line} JSON`;
  }
  if (value === null || value === undefined) return line;
  const fields = typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
  // A name with an equals sign could not be told from its value.
  if (fields.length === 0 || fields.some(([name]) => name === "" || name.includes("=")))
    return `echo ${word(JSON.stringify(value))} | ${line} -`;
  const words = fields.map(([name, one]) =>
    typeof one === "string" ? `${name}=${one}` : `${name}:=${JSON.stringify(one)}`,
  );
  return `${line} ${words.map(word).join(" ")}`;
}

function isPrintable(text: string): boolean {
  return !/[\p{C}\p{Zl}\p{Zp}]/u.test(text) && !/(?! )\p{Zs}/u.test(text);
}

function spell(character: string): string {
  if (character === "\\" || character === "'") return `\\${character}`;
  if (isPrintable(character)) return character;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x80) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}
