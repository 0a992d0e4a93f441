// The API: typed requests, and errors with their code, cause and fix. The types are generated from its description.

import { signal } from "@preact/signals";
import { root } from "./place";
import type { components, paths } from "./schema";
import { heardTime } from "./clock";

export type Schemas = components["schemas"];
export type Run = Schemas["RunBody"];
export type RunStatus = Schemas["RunStatus"];
export type Entry = Schemas["EntryBody"];
export type Wait = Schemas["WaitBody"];
export type Node = Schemas["Node"];
export type Failure = Schemas["FailureBody"];
export type Worker = Schemas["WorkerBody"];
export type Session = Schemas["SessionBody"];
export type Why = Schemas["WhyBody"];
export type Repair = Schemas["RepairBody"];
export type Permission = Schemas["Permission"];

type Method = "get" | "post" | "put" | "patch" | "delete";
type Change = Exclude<Method, "get">;
type Paths<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Of<T, K extends PropertyKey> = T extends { [key in K]?: infer V } ? V : never;
type Json<T> = T extends { content: infer C } ? C[keyof C] : never;
type Answers<O> = Of<O, "responses">;
/** What an operation answers when it has done something. */
export type Answer<P extends keyof paths, M extends Method> = Json<
  Answers<Operation<P, M>>[keyof Answers<Operation<P, M>>]
>;

type Query<P extends keyof paths> = Of<Of<Operation<P, "get">, "parameters">, "query">;
type Body<P extends keyof paths, M extends Method> = Json<NonNullable<Of<Operation<P, M>, "requestBody">>>;

/** Whether somebody has to sign in before the next request can succeed. */
export const isSignedOut = signal(false);

/** An error that the API answered with, or the lack of an answer. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly where: string;
  readonly why: string;
  readonly fix: string;
  readonly violations: string[];
  readonly requestId: string;

  constructor(body: Partial<Schemas["Problem"]> & { status: number }) {
    super(body.title ?? "");
    this.name = "Problem";
    this.status = body.status;
    this.code = body.code ?? "";
    this.title = body.title ?? "";
    this.where = body.where ?? "";
    this.why = body.why ?? "";
    this.fix = body.fix ?? "";
    this.violations = body.violations ?? [];
    this.requestId = body.request_id ?? "";
  }

  /** Whether the server or its store could not be reached, so that the same request may succeed later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 502;
  }
}

type Values = Record<string, string | number | boolean | null | undefined>;

function address(path: string, parts: Record<string, string>, query: object): URL {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parts[name] ?? ""));
  const found = new URL(filled.slice(1), root);
  for (const [name, value] of Object.entries(query as Values))
    if (value !== undefined && value !== null && value !== "") found.searchParams.set(name, String(value));
  return found;
}

async function ask(url: URL, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { ...init, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem({ status: 0, title: "The server does not answer", fix: "Is it running? This page keeps asking." });
  }
  heardTime(response.headers.get("x-stepwell-time"));
  if (response.ok) return response;
  if (response.status === 401) isSignedOut.value = true;
  throw new Problem({ ...(await problemOf(response)), status: response.status });
}

async function problemOf(response: Response): Promise<Partial<Schemas["Problem"]>> {
  const media = response.headers.get("content-type") ?? "";
  if (media.startsWith("application/problem+json")) return (await response.json()) as Schemas["Problem"];
  return { title: `The server answered ${response.status}`, why: "the answer is not one of stepwell; is a proxy in between?" };
}

/** Read something. */
export async function read<P extends Paths<"get">>(
  path: P,
  given: { parts?: Record<string, string>; query?: Query<P>; signal?: AbortSignal } = {},
): Promise<Answer<P, "get">> {
  const url = address(path, given.parts ?? {}, given.query ?? {});
  const response = await ask(url, given.signal ? { signal: given.signal } : {});
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  return (isJson ? await response.json() : await response.text()) as Answer<P, "get">;
}

/** Change something. The header tells the server that one of its own pages asks. */
export async function send<M extends Change, P extends Paths<M>>(
  method: M,
  path: P,
  given: { parts?: Record<string, string>; query?: Record<string, string>; body?: Body<P, M>; headers?: Record<string, string> } = {},
): Promise<Answer<P, M>> {
  const headers: Record<string, string> = { "x-stepwell-page": "1", ...given.headers };
  const init: RequestInit = { method: method.toUpperCase(), headers };
  if (given.body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(given.body);
  }
  const response = await ask(address(path, given.parts ?? {}, given.query ?? {}), init);
  return (await response.json()) as Answer<P, M>;
}

/** One event that the server has sent. */
export interface Told {
  event: string;
  id: string;
  data: string;
}

/** The paths whose answer is a stream of events. */
export type Streams = Extract<Paths<"get">, `${string}/changes`>;

/**
 * Hear a stream of events until the server ends it, or `signal` does. `heard` is called for each event, and with nothing
 * when it begins and when the server shows that it is still there. `mark` is the id of the last event that is known.
 */
export async function listen<P extends Streams>(
  path: P,
  given: { parts?: Record<string, string>; query?: Query<P>; mark?: string; signal: AbortSignal },
  heard: (told: Told | undefined) => void,
): Promise<void> {
  const headers: Record<string, string> = given.mark ? { "last-event-id": given.mark } : {};
  const response = await ask(address(path, given.parts ?? {}, given.query ?? {}), { signal: given.signal, headers });
  if (!response.body) return; // 204: there is nothing more
  heard(undefined);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const blocks = (rest + piece.value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) heard(toldIn(block));
  }
}

/** The event of a block of lines; nothing for a comment. */
export function toldIn(block: string): Told | undefined {
  const told: Told = { event: "message", id: "", data: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "event" || name === "id") told[name] = value;
    else if (name === "data") told.data += value;
  }
  return told.data === "" ? undefined : told;
}
