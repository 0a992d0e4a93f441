// The record of one run, as its page reads it: what is short at once, and its places in parts, as far as they are seen.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { read, type Answer, type Run, type Schemas, type Wait, type Why } from "../api";
import { type Reading, useReading } from "../live";
import { find, graft, type Place, placeOf } from "./places";

export type Shown = Answer<"/api/runs/{run}", "get">;
export type TreeBody = Schemas["TreeBody"];
export type Undo = Schemas["UndoBody"];

/** What the tabs of a run share. */
export interface RunRecord {
  run: Run;
  waits: Wait[];
  progress: Shown["progress"];
  pending: Shown["pending"];
  children: Run[];
  why: Why | undefined;
  acts: Answer<"/api/runs/{run}/acts", "get">["acts"];
  undos: Undo[];
  /** Its places, now; nothing until they are read. */
  tree: RunTree | undefined;
}

/** The places of a run at one line of its history, as far as they were read. */
export interface RunTree {
  body: TreeBody;
  root: Place;
  /** Read the places below these paths, from these numbers on. */
  want: (missing: Missing[]) => void;
}

export interface Missing {
  under: string;
  first: number;
}

const FIRST_MAX = 400;
const PAGE = 100;
const AGAIN_MS = 2_000;
/** What changes less often than the run, or matters less, is read at most so often. */
const SELDOM_MS = 1_000;

/** The part of a long list that has a number. */
export function pageAt(under: string, number: number): Missing {
  return { under, first: number - (number % PAGE) };
}

interface Page extends Missing {
  nodes: Schemas["Node"][];
  /** The state of the run that it was read in. */
  of: string;
}

/** The tree of a run: now, or as it was after the line `at`. */
export function useTree(run: string, at: number | undefined): { reading: Reading<TreeBody>; tree: RunTree | undefined } {
  const reading = useReading(
    at === undefined ? `run ${run} tree` : `run ${run} then ${at}`,
    (signal) => read("/api/runs/{run}/tree", { parts: { run }, query: { limit: FIRST_MAX, ...(at === undefined ? {} : { at }) }, signal }),
    at === undefined ? 4_000 : 60_000,
    at === undefined ? { run } : "nothing",
  );
  const body = reading.data.value;
  const pages = useRef(new Map<string, Page>());
  const [count, setCount] = useState(0);
  useEffect(() => {
    pages.current.clear();
    setCount((before) => before + 1);
  }, [run, at]);
  const tree = useMemo((): RunTree | undefined => {
    if (!body) return undefined;
    const root = placeOf(body.root);
    const id = body.run.run_id;
    const state = `${body.last} ${body.run.status}`;
    // A place is put in after the one above it.
    const known = [...pages.current.values()].sort((one, other) => one.under.length - other.under.length);
    for (const page of known) graft(root, page.under, page.nodes);
    const asked = new Set<string>();
    const want = (missing: Missing[]) => {
      for (const one of missing) {
        const key = `${one.under} ${one.first}`;
        if (asked.has(key) || pages.current.get(key)?.of === state) continue;
        asked.add(key);
        read("/api/runs/{run}/tree", {
          parts: { run: id },
          query: { under: one.under, first: one.first, limit: PAGE, ...(at === undefined ? {} : { at }) },
        })
          .then((found) => {
            pages.current.set(key, { ...one, nodes: found.root.below, of: state });
            setCount((before) => before + 1);
          })
          // The row stays unread; it is asked for again when it is seen then.
          .catch(() => setTimeout(() => asked.delete(key), AGAIN_MS));
      }
    };
    return { body, root, want };
  }, [body, count]);
  return { reading, tree };
}

/** Read what lies on the way to a place that a list has left out. */
export function useWay(tree: RunTree | undefined, path: string): void {
  const id = tree?.body.run.run_id;
  const isThere = !tree || path === "" || path.startsWith("/") || find(tree.root, path) !== undefined;
  useEffect(() => {
    if (!tree || !id || isThere) return;
    const own = new AbortController();
    const names = path.split("/");
    const walk = async () => {
      for (let depth = 1; depth <= names.length; depth += 1) {
        const one = names.slice(0, depth).join("/");
        if (find(tree.root, one)) continue;
        const query = { under: one, limit: 1, ...(tree.body.is_past ? { at: tree.body.at } : {}) };
        const found = await read("/api/runs/{run}/tree", { parts: { run: id }, query, signal: own.signal });
        tree.want([pageAt(names.slice(0, depth - 1).join("/"), found.root.number)]);
      }
    };
    // The path of an address may be wrong; then nothing is selected.
    walk().catch(() => undefined);
    return () => own.abort();
  }, [id, path, isThere]);
}

/** The readings of a run, as what follows its name in their keys. */
export const READINGS = ["", " tree", " why", " acts", " undos"];

/** What a page reads of a run. */
export function useRecord(name: string): { reading: Reading<Shown>; record: RunRecord | undefined } {
  // A signal that the run does not wait for changes only what is shown of it.
  const shownOf = { run: name, isUntold: true };
  const reading = useReading(`run ${name}`, (signal) => read("/api/runs/{run}", { parts: { run: name }, signal }), 4_000, shownOf);
  const shown = reading.data.value;
  const { tree } = useTree(name, undefined);
  const parts = { run: name };
  const seldom = { run: name, floor: SELDOM_MS };
  const why = useReading(`run ${name} why`, (signal) => read("/api/runs/{run}/why", { parts, signal }), 6_000, seldom).data.value;
  const acts = useReading(`run ${name} acts`, (signal) => read("/api/runs/{run}/acts", { parts, signal }), 6_000, seldom).data.value;
  const undos = useReading(`run ${name} undos`, (signal) => read("/api/runs/{run}/undos", { parts, signal }), 6_000, seldom).data.value;
  const record = useMemo(
    (): RunRecord | undefined =>
      shown && {
        run: shown.run,
        waits: shown.waits,
        progress: shown.progress,
        pending: shown.pending,
        children: shown.children,
        why,
        acts: acts?.acts ?? [],
        undos: undos?.undos ?? [],
        tree,
      },
    [shown, why, acts, undos, tree],
  );
  return { reading, record };
}
