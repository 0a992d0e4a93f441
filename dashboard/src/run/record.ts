// The record of one run, as its page reads it: the whole once, then what has come since.

import { read, type Answer, type Entry, type Node, type Run, type Wait, type Why } from "../api";

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

async function readAll(run: string, signal: AbortSignal): Promise<Entry[]> {
  const { root } = await read("/api/runs/{run}/tree", { parts: { run }, signal });
  const entries: Entry[] = [];
  const visit = (node: Node): void => {
    if (node.entry) entries.push(node.entry);
    node.below?.forEach(visit);
  };
  visit(root);
  return entries.sort((one, other) => one.seq - other.seq);
}

async function readOn(run: string, known: Entry[], signal: AbortSignal): Promise<Entry[]> {
  const entries = [...known];
  let after: number | null = known.at(-1)?.seq ?? 0;
  let undoes = false;
  while (after !== null) {
    const page: Answer<"/api/runs/{run}/history", "get"> = await read("/api/runs/{run}/history", {
      parts: { run },
      query: { after, limit: PAGE_MAX },
      signal,
    });
    entries.push(...page.entries);
    undoes ||= page.entries.some((entry) => entry.kind === "undo");
    after = page.next;
  }
  // An undo also marks the entry of its step.
  return undoes ? readAll(run, signal) : entries;
}
