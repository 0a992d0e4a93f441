import { signal } from "@preact/signals";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { toldIn } from "./api";
import { heardAt, isHeard, type Movement, startStream, watch } from "./stream";

interface Open {
  url: URL;
  mark: string | null;
  say: (text: string) => void;
  end: () => void;
  isAborted: () => boolean;
}

let opened: Open[] = [];
let isDown = false;
const told: Movement[] = [];
const isWanted = signal(false);

const event = (id: string, runs: string[], isWhole = true) =>
  `event: runs\nid: ${id}\ndata: ${JSON.stringify({ runs: runs.map((run_id) => ({ run_id })), is_whole: isWhole })}\n\n`;

beforeAll(() => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", async (url: URL, init: RequestInit) => {
    if (isDown) throw new TypeError("no connection");
    let control: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (one) => void (control = one) });
    init.signal?.addEventListener("abort", () => control.error(new DOMException("", "AbortError")));
    opened.push({
      url,
      mark: new Headers(init.headers).get("last-event-id"),
      say: (text) => control.enqueue(new TextEncoder().encode(text)),
      end: () => control.close(),
      isAborted: () => init.signal?.aborted ?? false,
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  });
  startStream(isWanted, (movement) => told.push(movement));
});
afterAll(() => {
  isWanted.value = false;
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
beforeEach(async () => {
  isWanted.value = false;
  isDown = false;
  await pass(100);
  opened = [];
  told.length = 0;
});

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const open = async () => {
  isWanted.value = true;
  await pass(500);
  return opened.at(-1) as Open;
};
const runsIn = () => told.map((one) => one.runs.map((run) => run.run_id).join());

it("tells what the server tells, also if it comes in pieces", async () => {
  const stream = await open();
  expect([stream.url.pathname, isHeard.value]).toEqual(["/api/changes", true]);
  const text = event("a-1", ["r-1", "r-2"]);
  stream.say(text.slice(0, 30));
  await pass(10);
  expect(told).toEqual([]);
  stream.say(text.slice(30) + ": still here\n\n" + event("a-2", ["r-3"], false));
  await pass(10);
  expect([runsIn(), told.map((one) => one.isWhole)]).toEqual([["r-1,r-2", "r-3"], [true, false]]);
});

it("continues after the last event when the connection is lost, and says that it is lost", async () => {
  const stream = await open();
  stream.say(event("a-7", ["r-1"]));
  await pass(10);
  isDown = true;
  stream.end();
  await pass(300);
  expect(isHeard.value).toBe(false);
  isDown = false;
  await pass(3_000);
  expect([opened.at(-1)?.mark, isHeard.value]).toEqual(["a-7", true]);
});

it("gives up a server that shows no life", async () => {
  const stream = await open();
  await pass(20_000);
  stream.say(": still here\n\n");
  await pass(20_000);
  expect([isHeard.value, Date.now() - heardAt.value]).toEqual([true, 20_000]);
  isDown = true;
  await pass(6_000);
  expect([stream.isAborted(), isHeard.value]).toEqual([true, false]);
});

it("asks again for runs that are watched, and has what is shown of them read again", async () => {
  const first = await open();
  const leave = watch("r-9");
  const leaveToo = watch("r-9");
  await pass(500);
  expect([first.isAborted(), opened.at(-1)?.url.searchParams.get("runs")]).toEqual([true, "r-9"]);
  expect([isHeard.value, runsIn()]).toEqual([true, ["r-9"]]);
  leave();
  await pass(500);
  expect(opened.length).toBe(2);
  leaveToo();
  await pass(500);
  expect(opened.at(-1)?.url.searchParams.get("runs")).toBe(null);
});

it("hears nothing while nobody wants it", async () => {
  const stream = await open();
  isWanted.value = false;
  await pass(60_000);
  expect([stream.isAborted(), isHeard.value, opened.length]).toEqual([true, false, 1]);
});

it("an event has its lines, and a comment is none", () => {
  expect(toldIn('event: runs\nid: x-1\ndata: {"a": ":"}')).toEqual({ event: "runs", id: "x-1", data: '{"a": ":"}' });
  expect(toldIn(": still here")).toBe(undefined);
});
