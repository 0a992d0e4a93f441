// A run and its parts, for tests.

import type { Entry, Failure, Node, Run, Wait } from "../api";

export const START = Date.UTC(2026, 10, 17, 9, 12, 4);

export function moment(ms: number): string {
  return new Date(START + ms).toISOString();
}

export function aRun(changes: Partial<Run> = {}): Run {
  return {
    run_id: "r-1", workflow: "order", version: 7, status: "completed", key: "order-1", generation: 0,
    created_at: moment(0), started_at: moment(0), ended_at: moment(1_000), wake_at: null, parent: null, successor: null,
    reason: "", failure: null, input: null, output: null, priority: 0, tags: {}, deadline_at: null, replaced_by: null,
    hold: null, forked_from: null, title: null, started_by: null, attributes: {}, headers: null, attempt: 1, unreadable: "",
    ...changes,
  };
}

export function anEntry(seq: number, path: string, changes: Partial<Entry> = {}): Entry {
  return {
    seq, path, kind: "step", status: "done", attempts: 1, at: moment(seq * 100), took: 0.05, value: null, failure: null,
    can_undo: false, is_undone: false, failed_attempts: [], unreadable: "", ...changes,
  };
}

export function aFailure(changes: Partial<Failure> = {}): Failure {
  return {
    type: "CardDeclined", message: "no funds", code: "", path: "", why: "", fix: "", advice: [], recorded: "", now: "",
    attempts: 0, data: null, trace: null, causes: {}, ...changes,
  };
}

export function aWait(path: string, changes: Partial<Wait> = {}): Wait {
  return { path, kind: "signal", due_at: null, names: ["approve"], failed_attempts: [], where: [], ...changes };
}

export function aNode(path: string, changes: Partial<Node> = {}): Node {
  const entry = changes.entry ?? null;
  const below = changes.below ?? [];
  return {
    name: path.slice(path.lastIndexOf("/") + 1), path, number: 0, entry, omitted: null, open_since: null, waits: [], progress: null,
    count: entry ? 1 : 0, failed: entry?.status === "failed" ? 1 : 0, retried: 0, is_moving: false,
    began_at: entry && new Date(Date.parse(entry.at) - entry.took * 1_000).toISOString(), ended_at: entry && entry.at,
    children: below.length, below, ...changes,
  };
}

/** A tree of these entries and waits, as the server makes it. */
export function aTree(entries: Entry[], waits: Wait[] = []): Node {
  const root = aNode("");
  const places = new Map<string, Node>([["", root]]);
  const place = (path: string): Node => {
    const found = places.get(path);
    if (found) return found;
    const above = place(path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");
    const made = aNode(path, { number: above.below.length });
    places.set(path, made);
    above.below.push(made);
    above.children += 1;
    return made;
  };
  const eachAbove = (path: string, change: (node: Node) => void) => {
    for (let at = path; ; at = at.includes("/") ? at.slice(0, at.lastIndexOf("/")) : "") {
      change(place(at));
      if (at === "") return;
    }
  };
  for (const entry of entries) {
    Object.assign(place(entry.path), { entry });
    eachAbove(entry.path, (node) => {
      node.count += 1;
      if (entry.status === "failed") node.failed += 1;
      node.began_at = node.began_at && node.began_at < entry.at ? node.began_at : entry.at;
      node.ended_at = node.ended_at && node.ended_at > entry.at ? node.ended_at : entry.at;
    });
  }
  for (const wait of waits) {
    place(wait.path).waits.push(wait);
    eachAbove(wait.path, (node) => (node.is_moving = true));
  }
  return root;
}
