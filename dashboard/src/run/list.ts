// The list that a run was opened from, for the steps to its neighbours.

import { signal } from "@preact/signals";

export const listed = signal<string[]>([]);

/** The run before and after this one. */
export function neighboursOf(run: string): { before: string | undefined; after: string | undefined } {
  const at = listed.value.indexOf(run);
  return at === -1 ? { before: undefined, after: undefined } : { before: listed.value[at - 1], after: listed.value[at + 1] };
}
