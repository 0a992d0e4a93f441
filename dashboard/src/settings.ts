// What a person has chosen in this browser. It is kept at once, and never leaves the browser.

import { effect, signal, type Signal } from "@preact/signals";

export const themes = ["system", "light", "dark", "contrast"] as const;
export type Theme = (typeof themes)[number];
export const zones = ["utc", "local"] as const;
export type Zone = (typeof zones)[number];

const PREFIX = "stepwell.";

function readText(name: string): string {
  try {
    return localStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return ""; // A browser may forbid storage; then choices last as long as the page.
  }
}

function writeText(name: string, text: string): void {
  try {
    if (text === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, text);
  } catch {
    // As above.
  }
}

function kept<T extends string>(name: string, values: readonly T[], first: T): Signal<T> {
  const found = readText(name);
  const value = signal<T>(values.find((one) => one === found) ?? first);
  effect(() => writeText(name, value.value === first ? "" : value.value));
  return value;
}

const onOff = ["on", "off"] as const;

export const theme = kept<Theme>("theme", themes, "system");
export const zone = kept<Zone>("zone", zones, "utc");
/** Whether single letters do something. They never do inside a field. */
export const letterKeys = kept("keys", onOff, "on");
/** Whether pages read again by themselves. */
export const live = kept("live", onOff, "on");

/** The columns of lists of runs, with commas between their names; empty: the usual ones. */
export const keptColumns = signal(readText("columns"));
effect(() => writeText("columns", keptColumns.value));

/** Show the theme. Without the attribute the system decides, also about contrast. */
export function showTheme(): void {
  effect(() => {
    const html = document.documentElement;
    if (theme.value === "system") html.removeAttribute("data-theme");
    else html.dataset["theme"] = theme.value;
  });
}
