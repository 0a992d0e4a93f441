// The record of one run, as its page reads it: the whole once, then what has come since.

import { read, type Answer, type Entry, type Run, type Wait, type Why } from "../api";

export interface RunRecord {
  run: Run;
  entries: Entry[];
  waits: Wait[];
  progress: Answer<"/api/runs/{run}", "get">["progress"];
  pendingSignals: string[];
  children: Run[];
  why: Why | undefined;
  acts: Answer<"/api/runs/{run}/acts", "get">["acts"];
}

const PAGE_MAX = 500;

/** A way to read a run again and again. Entries are only added, until an act removes some: then all are read again. */
export function recordOf(name: string): (signal: AbortSignal) => Promise<RunRecord> {
  let last: RunRecord | undefined;
  return async (signal) => {
    const parts = { run: name };
    const shown = await read("/api/runs/{run}", { parts, signal });
    const { run } = shown;
    const id = { run: run.run_id };
    if (last && last.run.run_id === run.run_id && run.ended_at && sameState(last.run, run)) {
      const acts = (await read("/api/runs/{run}/acts", { parts: id, signal })).acts;
      if (acts.length === last.acts.length) return last;
    }
    const [acts, why] = await Promise.all([
      read("/api/runs/{run}/acts", { parts: id, signal }),
      run.unreadable ? undefined : read("/api/runs/{run}/why", { parts: id, signal }),
    ]);
    const isKept = last !== undefined && last.run.run_id === run.run_id && last.acts.length === acts.acts.length;
    const entries = isKept && last ? await readOn(run.run_id, last.entries, signal) : await readAll(run.run_id, signal);
    last = {
      run,
      entries,
      waits: shown.waits,
      progress: shown.progress,
      pendingSignals: shown.pending_signals,
      children: shown.children,
      why,
      acts: acts.acts,
    };
    return last;
  };
}

function sameState(one: Run, other: Run): boolean {
  return one.status === other.status && one.ended_at === other.ended_at && one.successor === other.successor;
}

/** The whole history, from line to line: a tree of a long run has only a part of it. */
function readAll(run: string, signal: AbortSignal): Promise<Entry[]> {
  return readFrom(run, [], signal);
}

async function readOn(run: string, known: Entry[], signal: AbortSignal): Promise<Entry[]> {
  const entries = await readFrom(run, known, signal);
  // An undo also marks the entry of its step.
  const undoes = entries.slice(known.length).some((entry) => entry.kind === "undo");
  return undoes ? readAll(run, signal) : entries;
}

async function readFrom(run: string, known: Entry[], signal: AbortSignal): Promise<Entry[]> {
  const entries = [...known];
  let after: number | null = known.at(-1)?.seq ?? 0;
  while (after !== null) {
    const page: Answer<"/api/runs/{run}/history", "get"> = await read("/api/runs/{run}/history", {
      parts: { run },
      query: { after, limit: PAGE_MAX },
      signal,
    });
    entries.push(...page.entries);
    after = page.next;
  }
  return entries;
}
