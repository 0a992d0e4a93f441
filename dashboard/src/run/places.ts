// A run as a tree of its places, and the rows that a tree shows. Nothing here knows of a page.
//
// Of a long run only a part of the tree is read: a place knows how many places are below it, and has some of them.

import type { Entry, Node, Run, Wait } from "../api";
import { isEnded, originOf } from "../statuses";

export interface Place {
  node: Node;
  /** By number; those that were not read are missing. */
  below: (Place | undefined)[];
}

export type State = "done" | "failed" | "waiting" | "retrying" | "undone" | "ended" | "running" | "none" | "unread";

export interface Row {
  key: string;
  level: number;
  /** Its number among the rows beside it, from 1, and how many these are. */
  position: number;
  siblings: number;
  name: string;
  path: string;
  state: State;
  /** Quiet words after the name. */
  note: string;
  entry: Entry | undefined;
  waits: Wait[];
  /** The place; none if it was not read, or if the row is only a head. */
  node: Node | undefined;
  /** Where an unread row is found: below this path, at this number. */
  unread: { under: string; number: number } | undefined;
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

/** A place with those below it that were read. */
export function placeOf(node: Node): Place {
  const below: (Place | undefined)[] = new Array<Place | undefined>(node.children);
  for (const one of node.below) below[one.number] = placeOf(one);
  return { node, below };
}

/** Put places that were read later into a tree. Returns whether there is a place for them. */
export function graft(root: Place, under: string, nodes: Node[]): boolean {
  const place = find(root, under);
  if (!place) return false;
  for (const node of nodes) {
    const before = place.below[node.number];
    const after = placeOf(node);
    // What was read of the places below it before stays, if nothing was read of them now.
    if (before && node.below.length === 0 && before.below.length === after.below.length) after.below = before.below;
    place.below[node.number] = after;
  }
  return true;
}

/** The place of a path, if it was read. */
export function find(root: Place, path: string): Place | undefined {
  let at: Place | undefined = root;
  let from = "";
  for (const name of path === "" ? [] : path.split("/")) {
    from = from ? `${from}/${name}` : name;
    at = at?.below.find((one) => one?.node.path === from);
    if (!at) return undefined;
  }
  return at;
}

/** Whether everything in the tree was read. */
export function isWhole(place: Place): boolean {
  return known(place).length === place.below.length && known(place).every(isWhole);
}

/** All places that were read, each after the one above it. */
export function everyPlace(place: Place): Place[] {
  return [place, ...known(place).flatMap(everyPlace)];
}

function known(place: Place): Place[] {
  // `filter` leaves out what is missing, and does not visit it.
  return place.below.filter((one) => one !== undefined);
}

/** When a body began and ended, in milliseconds. */
export function spanOf(entry: Entry): [number, number] {
  const end = Date.parse(entry.at);
  return [end - entry.took * 1_000, end];
}

function spanBelow(node: Node): [number, number] | undefined {
  return node.began_at && node.ended_at ? [Date.parse(node.began_at), Date.parse(node.ended_at)] : undefined;
}

function spanWithoutUndos(place: Place): [number, number] | undefined {
  const spans = everyPlace(place).flatMap((one) => (one.node.entry && !one.node.name.includes(UNDO) ? [spanOf(one.node.entry)] : []));
  if (spans.length === 0) return undefined;
  return [Math.min(...spans.map((one) => one[0])), Math.max(...spans.map((one) => one[1]))];
}

/** The times at which something was done, for the axis: of what was not read, the whole time. */
export function busySpans(place: Place): [number, number][] {
  const read = known(place);
  const own = place.node.entry ? [spanOf(place.node.entry)] : [];
  const whole = spanBelow(place.node);
  if (read.length < place.below.length) return whole ? [whole, ...own] : own;
  return [...own, ...read.flatMap(busySpans)];
}

/** What is open, as a person has chosen: by key, and otherwise by what is shown at first. */
export type Opened = ReadonlyMap<string, boolean>;

export interface Tree {
  rows: Row[];
  /** Every failed row's key, in order. */
  failures: string[];
}

/** The rows of a run, as far as they are open. `then` is the time of a look into the past. */
export function rowsOf(run: Run, root: Place, opened: Opened, now: number, then?: number): Tree {
  const rows: Row[] = [];
  const failedAt = run.failure && then === undefined ? originOf(run.failure).path : "";
  // Undos have a place of their own beside the tree. In a tree that was not read wholly they stay where they are.
  const isApart = isWhole(root);
  const shown = (place: Place) => (isApart ? known(place).filter((one) => !one.node.name.includes(UNDO)) : undefined);
  const visit = (place: Place, level: number, position: number, siblings: number): void => {
    const row = rowOf(place, level, position, siblings, failedAt);
    // What is shown elsewhere is not part of it.
    if (isApart && !place.node.entry) row.span = spanWithoutUndos(place);
    const read = known(place);
    const isLoop = place.below.length >= LOOP_MIN && ITERATION.test(read[0]?.node.name ?? "");
    row.isOpen = row.hasBelow && (opened.get(row.key) ?? (!isLoop && read.length > 0));
    if (isLoop && !row.isOpen) {
      row.note = `~0 … ~${place.below.length - 1}`;
      if (read.length === place.below.length) row.marks = read.flatMap((one) => everyEntry(one).slice(0, 1));
    }
    rows.push(row);
    if (row.isOpen) below(place, level + 1);
    // A failed, repeated or waiting iteration is listed also under a closed loop.
    else if (isLoop) for (const one of read) if (isOdd(one.node)) visit(one, level + 1, one.node.number + 1, place.below.length);
  };
  const below = (place: Place, level: number): void => {
    const few = shown(place);
    if (few) {
      few.forEach((one, index) => visit(one, level, index + 1, few.length));
      return;
    }
    for (let number = 0; number < place.below.length; number += 1) {
      const one = place.below[number];
      if (one) visit(one, level, number + 1, place.below.length);
      else rows.push(unreadRow(place.node.path, number, level, place.below.length));
    }
  };
  const end = then ?? (run.ended_at ? Date.parse(run.ended_at) : now);
  const whole: [number, number] | undefined = run.started_at ? [Date.parse(run.started_at), end] : spanBelow(root.node);
  const undos = isApart ? undoRows(run, root, opened, then === undefined) : [];
  const isOpen = opened.get("/") ?? true;
  rows.push({
    ...EMPTY, key: "/", siblings: undos.length > 0 ? 2 : 1, name: run.workflow, node: root.node,
    state: then === undefined ? stateOfRun(run) : root.node.is_moving ? "running" : "none",
    note: `v${run.version}`, span: whole, hasBelow: root.below.length > 0, isOpen,
  });
  if (isOpen) below(root, 2);
  rows.push(...undos);
  return { rows, failures: rows.filter((row) => row.state === "failed" && row.entry).map((row) => row.key) };
}

const EMPTY: Row = {
  key: "", level: 1, position: 1, siblings: 1, name: "", path: "", state: "none", note: "", entry: undefined, waits: [],
  node: undefined, unread: undefined, span: undefined, hasBelow: false, isOpen: false, isUndo: false, marks: [],
};

function unreadRow(under: string, number: number, level: number, siblings: number): Row {
  return { ...EMPTY, key: `${under}#${number}`, level, position: number + 1, siblings, state: "unread", unread: { under, number } };
}

function undoRows(run: Run, root: Place, opened: Opened, isNow: boolean): Row[] {
  const places = everyPlace(root).filter((place) => place.node.name.includes(UNDO));
  const undos = places.flatMap((place) => place.node.entry ?? []).sort((one, other) => one.seq - other.seq);
  const waiting = places.flatMap((place) => place.node.waits);
  // The undo that stopped a rollback is not recorded: it is tried again.
  const stopped = isNow && run.status === "compensation_failed" && run.failure?.path.includes(UNDO) ? run.failure : undefined;
  if (undos.length + waiting.length === 0 && !stopped) return [];
  const isOpen = opened.get("~undo") ?? true;
  const spans = undos.map(spanOf);
  const head: Row = {
    ...EMPTY, key: "~undo", position: 2, siblings: 2, name: "undo", state: stopped ? "failed" : "undone",
    span: spans.length > 0 ? [Math.min(...spans.map((one) => one[0])), Math.max(...spans.map((one) => one[1]))] : undefined,
    hasBelow: true, isOpen, isUndo: true,
  };
  if (!isOpen) return [head];
  const one = { ...EMPTY, level: 2, isUndo: true };
  const rows: Row[] = undos.map((entry) => ({
    ...one, key: entry.path, name: undonePath(entry.path), path: entry.path,
    state: entry.status === "failed" ? "failed" : "undone", entry, span: spanOf(entry),
  }));
  for (const wait of waiting)
    rows.push({ ...one, key: wait.path, name: undonePath(wait.path), path: wait.path, state: "retrying", waits: [wait] });
  if (stopped)
    rows.push({ ...one, key: stopped.path, name: undonePath(stopped.path), path: stopped.path, state: "failed", note: stopped.type });
  rows.forEach((row, index) => Object.assign(row, { position: index + 1, siblings: rows.length }));
  return [head, ...rows];
}

function rowOf(place: Place, level: number, position: number, siblings: number, failedAt: string): Row {
  const { node } = place;
  return {
    ...EMPTY, key: node.path, level, position, siblings, name: node.name, path: node.path, node,
    state: stateOf(place, failedAt), entry: node.entry ?? undefined, waits: node.waits,
    span: node.entry ? spanOf(node.entry) : spanBelow(node), hasBelow: node.children > 0, isUndo: node.name.includes(UNDO),
  };
}

function everyEntry(place: Place): Entry[] {
  return everyPlace(place).flatMap((one) => one.node.entry ?? []);
}

function stateOf(place: Place, failedAt: string): State {
  const { node } = place;
  if (node.entry) return node.entry.status === "failed" ? "failed" : node.entry.is_undone || isUndo(node.entry) ? "undone" : "done";
  if (node.is_moving) {
    const waits = everyPlace(place).flatMap((one) => one.node.waits);
    if (waits.length === 0) return "running";
    return waits.every((wait) => wait.kind === "retry") ? "retrying" : "waiting";
  }
  // A group has no entry: it failed if the failure of the run happened in it.
  if (failedAt !== "" && (failedAt === node.path || failedAt.startsWith(`${node.path}/`))) return "failed";
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

/** Whether a person may look for it in a long list. */
function isOdd(node: Node): boolean {
  return node.failed > 0 || node.retried > 0 || node.is_moving;
}

/** How many attempts a row shows: those of its step, also while the next one is waited for. */
export function triesOf(row: Row): number | undefined {
  if (row.entry) return row.entry.attempts > 0 ? row.entry.attempts : undefined;
  const failed = row.waits.flatMap((wait) => wait.failed_attempts).length;
  return failed > 0 ? failed : undefined;
}
