// Time: that of the server, which counts for runs, and that of this browser, which counts for pauses between requests.

import { signal } from "@preact/signals";

const offset = signal(0);

/** The server's time in milliseconds since 1970. In a test or after skipped time it differs from that of this browser. */
export function now(): number {
  return Date.now() + offset.peek();
}

/** What the server said about its time, in microseconds. */
export function heardTime(text: string | null): void {
  const at = text === null ? Number.NaN : Number(text) / 1_000;
  // A small difference is the time that the answer took.
  if (Number.isFinite(at) && Math.abs(at - now()) > 1_500) offset.value = at - Date.now();
}

/** The server's time, again each second while the page is seen. Read it where something grows older. */
export const seconds = signal(Math.floor(now() / 1_000));

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) seconds.value = Math.floor(now() / 1_000);
  }, 1_000);
}
