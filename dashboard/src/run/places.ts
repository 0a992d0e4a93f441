// A run as a tree of its places, and the rows that a tree shows. Nothing here knows of a page.

import type { Entry, Run, Wait } from "../api";
import { isEnded, originOf } from "../statuses";

export interface Place {
  name: string;
  path: string;
  entry: Entry | undefined;
  waits: Wait[];
  below: Place[];
}

export type State = "done" | "failed" | "waiting" | "retrying" | "undone" | "ended" | "running" | "none";

export interface Row {
  key: string;
  level: number;
  name: string;
  path: string;
  state: State;
  /** Quiet words after the name. */
  note: string;
  entry: Entry | undefined;
  waits: Wait[];
  /** From the first to the last time that is known below, in milliseconds. */
  span: [number, number] | undefined;
  hasBelow: boolean;
  isOpen: boolean;
  isUndo: boolean;
  /** A closed row with many iterations has them as marks. */
  marks: Entry[];
}

export const UNDO = "~undo"; // after the path of the step that it undoes
const ITERATION = /^~\d+$/;
/** From so many iterations on, a loop is closed at first. */
const LOOP_MIN = 12;

/** Whether an entry is the undo of a step. */
export function isUndo(entry: Entry): boolean {
  return entry.kind === "undo";
}

/** The path of the step that an undo belongs to. */
export function undonePath(path: string): string {
  return path.split(UNDO)[0] ?? path;
}

/** The tree of entries and waits, in the order of the first entry below each place; undos are left out. */
export function grow(entries: Entry[], waits: Wait[]): Place {
  const root: Place = { name: "", path: "", entry: undefined, waits: [], below: [] };
  const places = new Map<string, Place>([["", root]]);
  const place = (path: string): Place => {
    let found = places.get(path);
    if (!found) {
      const cut = path.lastIndexOf("/");
      found = { name: path.slice(cut + 1), path, entry: undefined, waits: [], below: [] };
      places.set(path, found);
      place(cut === -1 ? "" : path.slice(0, cut)).below.push(found);
    }
    return found;
  };
  for (const entry of entries) if (!isUndo(entry) && !entry.path.includes(UNDO)) place(entry.path).entry = entry;
  for (const wait of waits) if (!wait.path.includes(UNDO)) place(wait.path).waits.push(wait);
  return root;
}

/** When a body began and ended, in milliseconds. */
export function spanOf(entry: Entry): [number, number] {
  const end = Date.parse(entry.at);
  return [end - entry.took * 1_000, end];
}

function joined(spans: ([number, number] | undefined)[]): [number, number] | undefined {
  const known = spans.filter((span) => span !== undefined);
  if (known.length === 0) return undefined;
  let [from, until] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const span of known) {
    from = Math.min(from, span[0]);
    until = Math.max(until, span[1]);
  }
  return [from, until];
}

/** What is open, as a person has chosen: by key, and otherwise by what is shown at first. */
export type Opened = ReadonlyMap<string, boolean>;

export interface Tree {
  rows: Row[];
  /** Every failed row's key, in order. */
  failures: string[];
}

/** The rows of a run, as far as they are open. */
export function rowsOf(run: Run, entries: Entry[], waits: Wait[], opened: Opened, now: number): Tree {
  const rows: Row[] = [];
  const root = grow(entries, waits);
  const failedAt = run.failure ? originOf(run.failure).path : "";
  const visit = (place: Place, level: number): void => {
    const row = rowOf(place, level, failedAt);
    const loop = place.below.filter((one) => ITERATION.test(one.name));
    const isLoop = loop.length >= LOOP_MIN;
    row.isOpen = row.hasBelow && (opened.get(row.key) ?? !isLoop);
    if (isLoop && !row.isOpen) {
      row.note = `~0 … ~${loop.length - 1}`;
      row.marks = loop.flatMap((one) => entriesBelow(one).slice(0, 1));
    }
    rows.push(row);
    // A failed, repeated or waiting iteration is listed also under a closed loop.
    const below = row.isOpen ? place.below : isLoop ? place.below.filter((one) => isOdd(one)) : [];
    for (const one of below) visit(one, level + 1);
  };
  const whole: [number, number] | undefined = run.started_at
    ? [Date.parse(run.started_at), run.ended_at ? Date.parse(run.ended_at) : now]
    : joined(entries.map(spanOf));
  const isOpen = opened.get("/") ?? true;
  rows.push({
    key: "/", level: 1, name: run.workflow, path: "", state: stateOfRun(run), note: `v${run.version}`,
    entry: undefined, waits: [], span: whole, hasBelow: root.below.length > 0, isOpen, isUndo: false, marks: [],
  });
  if (isOpen) for (const place of root.below) visit(place, 2);
  rows.push(...undoRows(run, entries, waits, opened));
  return { rows, failures: rows.filter((row) => row.state === "failed" && row.entry).map((row) => row.key) };
}

function undoRows(run: Run, entries: Entry[], waits: Wait[], opened: Opened): Row[] {
  const undos = entries.filter(isUndo);
  const waiting = waits.filter((wait) => wait.path.includes(UNDO));
  // The undo that stopped a rollback is not recorded: it is tried again.
  const stopped = run.status === "compensation_failed" && run.failure?.path.includes(UNDO) ? run.failure : undefined;
  if (undos.length + waiting.length === 0 && !stopped) return [];
  const isOpen = opened.get("~undo") ?? true;
  const head: Row = {
    key: "~undo", level: 1, name: "undo", path: "", state: stopped ? "failed" : "undone", note: "",
    entry: undefined, waits: [], span: joined(undos.map(spanOf)), hasBelow: true, isOpen, isUndo: true, marks: [],
  };
  if (!isOpen) return [head];
  const rows = undos.map((entry): Row => ({
    key: entry.path, level: 2, name: undonePath(entry.path), path: entry.path,
    state: entry.status === "failed" ? "failed" : "undone", note: "", entry, waits: [], span: spanOf(entry),
    hasBelow: false, isOpen: false, isUndo: true, marks: [],
  }));
  const later = waiting.map((wait): Row => ({
    key: wait.path, level: 2, name: undonePath(wait.path), path: wait.path, state: "retrying", note: "",
    entry: undefined, waits: [wait], span: undefined, hasBelow: false, isOpen: false, isUndo: true, marks: [],
  }));
  if (stopped)
    later.push({
      key: stopped.path, level: 2, name: undonePath(stopped.path), path: stopped.path, state: "failed", note: stopped.type,
      entry: undefined, waits: [], span: undefined, hasBelow: false, isOpen: false, isUndo: true, marks: [],
    });
  return [head, ...rows, ...later];
}

function rowOf(place: Place, level: number, failedAt: string): Row {
  const spans = entriesBelow(place).map(spanOf);
  return {
    key: place.path,
    level,
    name: place.name,
    path: place.path,
    state: stateOf(place, failedAt),
    note: "",
    entry: place.entry,
    waits: place.waits,
    span: place.entry ? spanOf(place.entry) : joined(spans),
    hasBelow: place.below.length > 0,
    isOpen: false,
    isUndo: false,
    marks: [],
  };
}

function entriesBelow(place: Place): Entry[] {
  return [...(place.entry ? [place.entry] : []), ...place.below.flatMap(entriesBelow)];
}

function waitsBelow(place: Place): Wait[] {
  return [...place.waits, ...place.below.flatMap(waitsBelow)];
}

function stateOf(place: Place, failedAt: string): State {
  if (place.entry) return place.entry.status === "failed" ? "failed" : place.entry.is_undone ? "undone" : "done";
  const waits = waitsBelow(place);
  if (waits.length > 0) return waits.every((wait) => wait.kind === "retry") ? "retrying" : "waiting";
  // A group has no entry: it failed if the failure of the run happened in it.
  if (failedAt === place.path || failedAt.startsWith(`${place.path}/`)) return "failed";
  return "done";
}

function stateOfRun(run: Run): State {
  switch (run.status) {
    case "completed":
    case "continued":
      return "done";
    case "failed":
    case "compensated":
    case "compensation_failed":
      return "failed";
    case "running":
      return "running";
    default:
      return isEnded(run) ? "ended" : "waiting";
  }
}

function isOdd(place: Place): boolean {
  return (
    waitsBelow(place).length > 0 ||
    entriesBelow(place).some((entry) => entry.status === "failed" || entry.failed_attempts.length > 0)
  );
}

/** How many attempts a row shows: those of its step, also while the next one is waited for. */
export function triesOf(row: Row): number | undefined {
  if (row.entry) return row.entry.attempts > 0 ? row.entry.attempts : undefined;
  const failed = row.waits.flatMap((wait) => wait.failed_attempts).length;
  return failed > 0 ? failed : undefined;
}
