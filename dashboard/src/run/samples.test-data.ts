// A run and its parts, for tests.

import type { Entry, Failure, Run, Wait } from "../api";

export const START = Date.UTC(2026, 10, 17, 9, 12, 4);

export function moment(ms: number): string {
  return new Date(START + ms).toISOString();
}

export function aRun(changes: Partial<Run> = {}): Run {
  return {
    run_id: "r-1", workflow: "order", version: 7, status: "completed", key: "order-1", generation: 0,
    created_at: moment(0), started_at: moment(0), ended_at: moment(1_000), wake_at: null, parent: null, successor: null,
    reason: "", failure: null, input: null, output: null, priority: 0, tags: {}, deadline_at: null, replaced_by: null,
    hold: null, forked_from: null, title: null, started_by: null, attributes: {}, headers: null, attempt: 0, unreadable: "", ...changes,
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
