// What a person has chosen in this browser. It is kept at once, and never leaves the browser.

import { effect, signal, type Signal } from "@preact/signals";

export const themes = ["system", "light", "dark", "contrast"] as const;
export type Theme = (typeof themes)[number];
export const zones = ["utc", "local"] as const;
export type Zone = (typeof zones)[number];

const PREFIX = "stepwell.";

function kept<T extends string>(name: string, values: readonly T[], first: T): Signal<T> {
  let found: string | null = null;
  try {
    found = localStorage.getItem(PREFIX + name);
  } catch {
    // A browser may forbid storage; then choices last as long as the page.
  }
  const value = signal<T>(values.find((one) => one === found) ?? first);
  effect(() => {
    const chosen = value.value;
    try {
      if (chosen === first) localStorage.removeItem(PREFIX + name);
      else localStorage.setItem(PREFIX + name, chosen);
    } catch {
      // As above.
    }
  });
  return value;
}

const onOff = ["on", "off"] as const;

export const theme = kept<Theme>("theme", themes, "system");
export const zone = kept<Zone>("zone", zones, "utc");
/** Whether single letters do something. They never do inside a field. */
export const letterKeys = kept("keys", onOff, "on");
/** Whether pages read again by themselves. */
export const live = kept("live", onOff, "on");

/** Show the theme. Without the attribute the system decides, also about contrast. */
export function showTheme(): void {
  effect(() => {
    const html = document.documentElement;
    if (theme.value === "system") html.removeAttribute("data-theme");
    else html.dataset["theme"] = theme.value;
  });
}
