// The stream of changes, which all pages of a browser share: browsers open few connections to one server.
//
// Of the pages that are seen, one holds a lock. It hears the server, and tells the others on a channel. A page that is
// hidden lets go of the lock and listens to nothing; the next one continues after the last event that it knows. Browsers
// give locks to pages from loopback and over https only: elsewhere each page hears the server itself.

import { effect, type ReadonlySignal, signal } from "@preact/signals";
import { listen, Problem, type Schemas, type Told } from "./api";
import { root } from "./place";

export type MovedRun = Schemas["MovedRun"];

export interface Movement {
  runs: MovedRun[];
  /** If not, other runs may have changed too. */
  isWhole: boolean;
}

type Message =
  | { kind: "moved"; mark: string; movement: Movement }
  | { kind: "open"; isOpen: boolean; mark: string; watched: string[] }
  | { kind: "watch"; page: string; runs: string[] }
  | { kind: "who" };

const PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 10_000;
/** The server shows every 15 seconds that it is there. */
const SILENCE_MAX_MS = 25_000;
/** Pages that open together ask for one stream, not for one after the other. */
const SETTLE_MS = 150;

const NAME = `stepwell ${root.pathname}`;
const OWN = crypto.randomUUID?.() ?? String(Math.random());

/** Whether changes are heard at this moment. */
export const isHeard = signal(false);
/** When the server was last heard, by this browser's clock. */
export const heardAt = signal(0);

let mark = "";
let tell: (movement: Movement) => void = () => undefined;
let channel: BroadcastChannel | undefined;
/** The runs that each page watches more closely, while this one leads. */
const watched = new Map<string, string[]>();
const own = new Map<string, number>();
/** The watched runs whose every change is told from now on. */
let known = new Set<string>();
let restart: AbortController | undefined;
let settling: ReturnType<typeof setTimeout> | undefined;
let isLeading = false;

/** Hear changes as long as they are wanted. Called once. */
export function startStream(isWanted: ReadonlySignal<boolean>, told: (movement: Movement) => void): void {
  tell = told;
  if (typeof BroadcastChannel === "function" && navigator.locks) {
    channel = new BroadcastChannel(NAME);
    channel.onmessage = (event: MessageEvent<Message>) => isWanted.peek() && heard(event.data);
  }
  addEventListener("offline", () => restart?.abort());
  addEventListener("online", () => restart?.abort());
  effect(() => {
    if (!isWanted.value) return;
    const stop = new AbortController();
    void take(stop.signal);
    say({ kind: "watch", page: OWN, runs: [...own.keys()] });
    return () => {
      stop.abort();
      say({ kind: "watch", page: OWN, runs: [] });
      isHeard.value = false;
      known = new Set();
    };
  });
}

/** Watch a run more closely: every commit of it is told. Ends when the answer is called. */
export function watch(run: string): () => void {
  own.set(run, (own.get(run) ?? 0) + 1);
  watching(OWN, [...own.keys()]);
  return () => {
    const count = (own.get(run) ?? 1) - 1;
    if (count > 0) own.set(run, count);
    else own.delete(run);
    watching(OWN, [...own.keys()]);
  };
}

function say(message: Message): void {
  channel?.postMessage(message);
}

/** What another page says. */
function heard(message: Message): void {
  switch (message.kind) {
    case "watch":
      if (!isLeading) return;
      watching(message.page, message.runs);
      if (isHeard.peek()) say({ kind: "open", isOpen: true, mark, watched: [...known] });
      return;
    case "who":
      say({ kind: "watch", page: OWN, runs: [...own.keys()] });
      return;
    case "moved":
      moved(message.mark, message.movement);
      return;
    case "open":
      opened(message.isOpen, message.mark, message.watched);
  }
}

function moved(at: string, movement: Movement): void {
  mark = at;
  heardAt.value = Date.now();
  isHeard.value = true;
  tell(movement);
}

/** The stream is open, is still open, or is lost. What happened to a run before it was watched was not told. */
function opened(isOpen: boolean, at: string, runs: string[]): void {
  if (isOpen) {
    heardAt.value = Date.now();
    if (at) mark = at;
  }
  isHeard.value = isOpen;
  const fresh = isOpen ? [...own.keys()].filter((run) => runs.includes(run) && !known.has(run)) : [];
  known = new Set(isOpen ? runs : []);
  if (fresh.length > 0) tell({ runs: fresh.map((run) => ({ run_id: run }) as MovedRun), isWhole: true });
}

function watching(page: string, runs: string[]): void {
  if (page === OWN) say({ kind: "watch", page, runs });
  const before = all();
  if (runs.length > 0) watched.set(page, runs);
  else watched.delete(page);
  if (!isLeading || all().join() === before.join()) return;
  clearTimeout(settling);
  settling = setTimeout(() => restart?.abort(), SETTLE_MS);
}

function all(): string[] {
  return [...new Set([...watched.values()].flat())].sort().slice(0, WATCHED_MAX);
}

/** As many as the server takes. */
const WATCHED_MAX = 200;

async function take(stop: AbortSignal): Promise<void> {
  if (!channel) return lead(stop);
  await navigator.locks.request(NAME, { signal: stop }, () => lead(stop)).catch(() => undefined);
}

/** Hear the server, again and again, until this page is not seen any more. */
async function lead(stop: AbortSignal): Promise<void> {
  isLeading = true;
  watched.clear();
  if (own.size > 0) watched.set(OWN, [...own.keys()]);
  say({ kind: "who" });
  await pause(SETTLE_MS, stop);
  let failures = 0;
  while (!stop.aborted) {
    const again = new AbortController();
    restart = again;
    const runs = all();
    const open = (isOpen: boolean) => {
      say({ kind: "open", isOpen, mark, watched: runs });
      opened(isOpen, mark, runs);
    };
    let isClosing = false;
    try {
      await hear(runs, AbortSignal.any([stop, again.signal]), (told) => {
        failures = 0;
        if (!told) return open(true);
        if (told.event === "problem") {
          isClosing = true;
          return;
        }
        const movement = movementIn(told);
        say({ kind: "moved", mark: told.id, movement });
        moved(told.id, movement);
      });
      if (isClosing) failures += 1;
    } catch (error) {
      // Another set of runs is asked for at once; the stream is not lost then.
      if (stop.aborted || (again.signal.aborted && navigator.onLine)) continue;
      failures += 1;
      // A mark that is refused is not repeated.
      if (error instanceof Problem && error.status === 400) mark = "";
    }
    if (stop.aborted) break;
    if (failures > 0) open(false);
    await pause(Math.min(PAUSE_MAX_MS, failures > 0 ? PAUSE_MS * 2 ** (failures - 1) : 0), AbortSignal.any([stop, again.signal]));
  }
  isLeading = false;
  restart = undefined;
}

function movementIn(told: Told): Movement {
  const found = JSON.parse(told.data) as Schemas["MovementBody"];
  return { runs: found.runs, isWhole: found.is_whole };
}

/** One stream. A server that shows no life is lost, whatever the network says. */
async function hear(runs: string[], stop: AbortSignal, tell: (told: Told | undefined) => void): Promise<void> {
  const silence = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
  };
  alive();
  try {
    const signal = AbortSignal.any([stop, silence.signal]);
    await listen("/api/changes", { query: { runs: runs.join() }, mark, signal }, (told) => {
      alive();
      tell(told);
    });
  } finally {
    clearTimeout(timer);
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (stop.aborted) return done();
    const timer = setTimeout(done, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });
}
