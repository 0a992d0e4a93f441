// What pages show of the server, and when it is read again.
//
// A page uses readings: each has a key, a way to ask, and the data that came last. There are at most four rounds of
// reading in a second, however much changes. A hidden page, and one that a person has paused, reads nothing. When the
// server does not answer, the data stays, and the page says how old it is.

import { computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { follow, isSignedOut, Problem } from "./api";
import { live } from "./settings";

const ROUND_MS = 250;
const USUAL_MS = 3_000;
const WAIT_MAX_MS = 10_000;
const KEPT_MAX = 40;

export interface Reading<T> {
  readonly data: ReadonlySignal<T | undefined>;
  /** Why the last attempt failed; the data is older then. */
  readonly problem: ReadonlySignal<Problem | undefined>;
  /** Read again as soon as the next round allows. */
  again(): void;
}

type Ask<T> = (signal: AbortSignal) => Promise<T>;

class Source<T> implements Reading<T> {
  readonly data = signal<T | undefined>(undefined);
  readonly problem = signal<Problem | undefined>(undefined);
  /** When the data was read, by this browser's clock. */
  readAt = 0;
  dueAt = 0;
  every = USUAL_MS;
  users = 0;
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

  stop(): void {
    this.reading?.abort();
    this.reading = undefined;
  }

  async read(): Promise<void> {
    const own = new AbortController();
    this.reading = own;
    this.dueAt = Number.POSITIVE_INFINITY;
    try {
      const found = await this.ask(own.signal);
      if (own.signal.aborted) return;
      this.readAt = Date.now();
      this.failures = 0;
      this.data.value = found;
      this.problem.value = undefined;
      this.settle(this.every);
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
    if (this.dueAt !== 0) this.dueAt = Date.now() + ms;
  }
}

const sources = new Map<string, Source<unknown>>();
const isSeen = signal(!document.hidden);
const heard = signal(0);
let timer: ReturnType<typeof setTimeout> | undefined;
let lastRound = 0;

const isRunning = computed(() => isSeen.value && live.value === "on" && !isSignedOut.value);

/** Follow whether the page is seen. Called once. */
export function startLive(): void {
  document.addEventListener("visibilitychange", () => (isSeen.value = !document.hidden));
  effect(() => {
    if (isRunning.value) plan();
    else clearTimeout(timer);
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
export function useReading<T>(key: string, ask: Ask<T>, every = USUAL_MS): Reading<T> {
  const source = useMemo(() => sourceOf(key, ask), [key]);
  source.ask = ask;
  source.every = every;
  useEffect(() => {
    source.users += 1;
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
  const oldest = Math.min(...shown.filter((source) => source.readAt > 0).map((source) => source.readAt));
  const age = Number.isFinite(oldest) ? Math.max(0, moment - oldest) : 0;
  if (live.value !== "on") return { state: "paused", age };
  const isLost = shown.some((source) => source.problem.value?.isPassing === true);
  return { state: isLost ? "stale" : "live", age };
}

/** Follow a run by its own stream, as long as the page is seen. `changed` readings are read again when it tells something. */
export function useFollow(run: string | undefined, lastSeq: () => number, tell: () => void): void {
  useEffect(() => {
    if (run === undefined) return;
    return effect(() => {
      if (!isRunning.value) return;
      const own = new AbortController();
      // A stream that breaks off is not opened again: readings continue without it.
      follow(run, lastSeq(), tell, own.signal).catch(() => undefined);
      return () => own.abort();
    });
  }, [run]);
}
