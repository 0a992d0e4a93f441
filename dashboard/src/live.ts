// What pages show of the server, and when it is read again.
//
// A page uses readings: each has a key, a way to ask, and the data that came last. What the stream of changes tells is
// read again; without the stream, each reading is repeated after a while. There are at most four rounds of reading in a
// second, however much changes. A hidden page, and one that a person has paused, reads nothing. When the server does not
// answer, the data stays, and the page says how old it is.

import { computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { isSignedOut, Problem } from "./api";
import { live } from "./settings";
import { heardAt, isHeard, type Movement, startStream, watch } from "./stream";

const ROUND_MS = 250;
const USUAL_MS = 3_000;
const WAIT_MAX_MS = 10_000;
/** A list of runs may change with every run: it is read at most so often. */
const LIST_MS = 1_000;
/** What takes long to read is read less often: so many times as long is between two reads. */
const REST_RATIO = 4;
/** While changes are told, what they concern is read so many times less often without being told. */
const TOLD_RATIO = 5;
const KEPT_MAX = 40;

export interface Reading<T> {
  readonly data: ReadonlySignal<T | undefined>;
  /** Why the last attempt failed; the data is older then. */
  readonly problem: ReadonlySignal<Problem | undefined>;
  /** Read again as soon as the next round allows. */
  again(): void;
}

type Ask<T> = (signal: AbortSignal) => Promise<T>;

/** Which changes concern a reading: those of every run, those of one (by its id or key), or none that the stream tells. */
export type Concern =
  | "runs"
  | "nothing"
  | {
      run: string;
      /** It is read at most so often. */
      floor?: number;
      /** Not everything that it shows is told: it is read as often as without the stream. */
      isUntold?: boolean;
    };

function isUntold(concern: Concern): boolean {
  return typeof concern === "object" && concern.isUntold === true;
}

const OF_RUNS = new Set(["runs", "home", "figures", "errors", "workflow"]);

/** What the key of a reading tells: `run ID …` is about a run, and `runs …` about all. */
export function concernOf(key: string): Concern {
  const [name = "", run = ""] = key.split(" ");
  if (name === "run" || name === "run-row") return { run };
  return OF_RUNS.has(name) ? "runs" : "nothing";
}

class Source<T> implements Reading<T> {
  readonly data = signal<T | undefined>(undefined);
  readonly problem = signal<Problem | undefined>(undefined);
  /** When the data was read, by this browser's clock. */
  readAt = 0;
  dueAt = 0;
  every = USUAL_MS;
  users = 0;
  concern: Concern = "nothing";
  /** How long the last read took. */
  private took = 0;
  ask: Ask<T>;
  private failures = 0;
  private reading: AbortController | undefined;

  constructor(ask: Ask<T>) {
    this.ask = ask;
  }

  get isReading(): boolean {
    return this.reading !== undefined;
  }

  again(): void {
    this.dueAt = 0;
    plan();
  }

  /** How old its data may be: what the stream would have told has not changed. */
  get knownAt(): number {
    return this.readAt > 0 && this.isTold ? Math.max(this.readAt, heardAt.peek()) : this.readAt;
  }

  private get isTold(): boolean {
    return isHeard.peek() && this.concern !== "nothing";
  }

  /** Something has happened that concerns it. */
  hear(movement: Movement): void {
    const { concern } = this;
    if (concern === "nothing") return;
    const isMeant =
      !movement.isWhole ||
      (concern === "runs" ? movement.runs.length > 0 : movement.runs.some((run) => run.run_id === concern.run || run.key === concern.run));
    if (!isMeant) return;
    const floor = concern === "runs" ? LIST_MS : (concern.floor ?? 0);
    this.dueAt = this.isReading ? 0 : Math.min(this.dueAt, this.readAt + Math.max(floor, REST_RATIO * this.took));
  }

  /** The stream is lost: it is read as often as without one. */
  lost(): void {
    if (this.concern !== "nothing" && !this.isReading) this.dueAt = Math.min(this.dueAt, this.readAt + this.every);
  }

  stop(): void {
    this.reading?.abort();
    this.reading = undefined;
  }

  async read(): Promise<void> {
    const own = new AbortController();
    this.reading = own;
    this.dueAt = Number.POSITIVE_INFINITY;
    const began = Date.now();
    try {
      const found = await this.ask(own.signal);
      if (own.signal.aborted) return;
      this.readAt = Date.now();
      this.took = this.readAt - began;
      this.failures = 0;
      this.data.value = found;
      this.problem.value = undefined;
      this.settle(this.isTold && !isUntold(this.concern) ? this.every * TOLD_RATIO : this.every);
    } catch (error) {
      if (own.signal.aborted) return;
      this.problem.value = error instanceof Problem ? error : new Problem({ status: -1, title: String(error) });
      this.failures += 1;
      this.settle(Math.min(WAIT_MAX_MS, Math.max(this.every, 500 * 2 ** this.failures)));
    } finally {
      if (this.reading === own) this.reading = undefined;
      heard.value += 1;
      plan();
    }
  }

  /** When it is due again; at once, if somebody asked for that while it was being read. */
  private settle(ms: number): void {
    const isAgain = this.dueAt === 0;
    this.dueAt = Date.now() + (isAgain ? Math.min(ms, REST_RATIO * this.took) : ms);
  }
}

const sources = new Map<string, Source<unknown>>();
const isSeen = signal(!document.hidden);
const heard = signal(0);
let timer: ReturnType<typeof setTimeout> | undefined;
let lastRound = 0;

const isRunning = computed(() => isSeen.value && live.value === "on" && !isSignedOut.value);
const hasUsers = signal(false);
const isFollowing = computed(() => isRunning.value && hasUsers.value);

/** Follow whether the page is seen. Called once. */
export function startLive(): void {
  document.addEventListener("visibilitychange", () => (isSeen.value = !document.hidden));
  effect(() => {
    if (!isRunning.value) return clearTimeout(timer);
    // What was told meanwhile was not heard.
    for (const source of used()) if (source.concern !== "nothing") source.dueAt = Math.min(source.dueAt, source.readAt + source.every);
    plan();
  });
  startStream(isFollowing, (movement) => {
    for (const source of used()) source.hear(movement);
    plan();
  });
  effect(() => {
    if (isHeard.value) return;
    for (const source of used()) source.lost();
    plan();
  });
}

function used(): Source<unknown>[] {
  return [...new Set(sources.values())].filter((source) => source.users > 0);
}

/** Whether a source may be read now. The first read of what is shown is never held back by a pause. */
function mayRead(source: Source<unknown>): boolean {
  if (source.isReading || isSignedOut.peek()) return false;
  return isRunning.peek() || (source.data.peek() === undefined && source.problem.peek() === undefined);
}

function plan(): void {
  clearTimeout(timer);
  const next = Math.min(...used().filter(mayRead).map((source) => source.dueAt));
  if (next === Number.POSITIVE_INFINITY) return;
  timer = setTimeout(round, Math.max(0, Math.max(lastRound + ROUND_MS, next) - Date.now()));
}

function round(): void {
  lastRound = Date.now();
  for (const source of used()) if (mayRead(source) && source.dueAt <= lastRound) void source.read();
  plan();
}

/** Use a reading as long as this part is on the page. What an earlier page read is shown at once, and read again. */
export function useReading<T>(key: string, ask: Ask<T>, every = USUAL_MS, concern = concernOf(key)): Reading<T> {
  const source = useMemo(() => sourceOf(key, ask), [key]);
  source.ask = ask;
  source.every = every;
  source.concern = concern;
  useEffect(() => {
    source.users += 1;
    hasUsers.value = true;
    if (Date.now() - source.readAt > ROUND_MS) source.dueAt = 0;
    plan();
    return () => {
      source.users -= 1;
      if (source.users === 0) source.stop();
    };
  }, [source]);
  return source;
}

function sourceOf<T>(key: string, ask: Ask<T>): Source<T> {
  const found = (sources.get(key) as Source<T> | undefined) ?? new Source(ask);
  // The one used last comes last, so that the oldest unused one goes first.
  sources.delete(key);
  sources.set(key, found as Source<unknown>);
  for (const [name, source] of sources) {
    if (sources.size <= KEPT_MAX) break;
    if (source.users === 0 && name !== key) sources.delete(name);
  }
  return found;
}

/** Something has changed: readings whose key begins with one of these are read again. */
export function changed(...prefixes: string[]): void {
  for (const [key, source] of sources)
    if (prefixes.some((prefix) => key.startsWith(prefix))) {
      source.dueAt = 0;
      source.readAt = 0;
    }
  plan();
}

/** What was read under one key is also what the other key names, so that nothing is read twice. */
export function sameAs(key: string, other: string): void {
  const found = sources.get(key);
  if (found && !sources.has(other)) sources.set(other, found);
}

/** Read everything again, as after signing in as somebody else. */
export function forget(): void {
  for (const [key, source] of sources) {
    source.stop();
    source.dueAt = 0;
    if (source.users === 0) sources.delete(key);
  }
  plan();
}

export interface Connection {
  state: "live" | "stale" | "paused";
  /** Milliseconds since the oldest data on the page was read. */
  age: number;
}

/** How fresh the page is, at this moment of this browser. */
export function connectionAt(moment: number): Connection {
  heard.value; // It is asked again after each read.
  const shown = used();
  const oldest = Math.min(...shown.filter((source) => source.readAt > 0).map((source) => source.knownAt));
  const age = Number.isFinite(oldest) ? Math.max(0, moment - oldest) : 0;
  if (live.value !== "on") return { state: "paused", age };
  const isLost = shown.some((source) => source.problem.value?.isPassing === true);
  return { state: isLost ? "stale" : "live", age };
}

/** Follow a run closely as long as this part is on the page: every change of it is told, not only those of its status. */
export function useFollow(run: string | undefined): void {
  useEffect(() => (run === undefined ? undefined : watch(run)), [run]);
}

/** Whether the page is seen and follows the server, for what hears a stream of its own. */
export const isFollowed: ReadonlySignal<boolean> = isRunning;
