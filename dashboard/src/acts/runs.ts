// What can be done to one run.

import { type Act, type Field, type Offer, offer, readJson, type Values } from "../acts";
import { type Answer, read, type Repair, type Run, type RunStatus, type Schemas, send, type Why } from "../api";
import type { Schema } from "../forms";
import { changed } from "../live";
import { toRun } from "../place";
import { exampleOf } from "../schemas";
import { command, target, withInput } from "../shell";
import { words } from "../words";

/** A run, and what an act may need to know of it. */
export interface RunTarget {
  run: Run;
  /** The names of the signals that it waits for. */
  awaited: string[];
  /** The path of the selected or failed step. */
  path: string;
  /** The types of the signals that its workflow declares; nothing if they are not known, or if any may be sent. */
  signals?: Schemas["SignalType"][] | null;
  /** What can be skipped now, with the type of each result; nothing if it is not known. */
  skippable?: Schemas["SkippableList"];
}

const said = words.runActs;

function reread(run: Run): void {
  changed(`run ${run.run_id}`, "runs", "home");
}

function reason(help: string = said.reasonHelp): Field {
  return { name: "reason", label: said.reason, kind: "area", help };
}

function path(initial: string, label: string): Field {
  return { name: "path", label, kind: "text", initial, isRequired: true, help: said.pathHelp };
}

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function reasonWords(values: Values): string[] | false {
  const given = text(values, "reason");
  return given !== "" && ["--reason", given];
}

function parts(one: RunTarget) {
  return { run: one.run.run_id };
}

function nameOf(run: Run): string {
  return run.key ?? run.run_id;
}

function done(one: RunTarget, title: string): { title: string; link: { href: string; text: string } } {
  reread(one.run);
  return { title: `${nameOf(one.run)} ${title}`, link: { href: toRun(one.run.run_id), text: words.show } };
}

function acted(one: RunTarget, answer: Answer<"/api/runs/{run}/cancel", "post">, title: string) {
  return { ...done(one, title), text: answer.changed ? "" : said.nothingChanged };
}

const cancel: Act<RunTarget> = {
  name: "cancel",
  label: said.cancel,
  title: said.cancelTitle,
  about: said.cancelAbout,
  permission: "steer",
  isDangerous: true,
  fields: () => [
    { name: "compensate", label: said.undoFirst, kind: "check", initial: true, help: said.undoFirstHelp },
    reason(),
  ],
  command: (one, values) =>
    command("cancel", values["compensate"] === false && "--now", reasonWords(values), target(one.run.run_id)),
  send: async (one, values) => {
    const body = { compensate: values["compensate"] !== false, reason: text(values, "reason") };
    return acted(one, await send("post", "/api/runs/{run}/cancel", { parts: parts(one), body }), said.cancelled);
  },
};

const pause: Act<RunTarget> = {
  name: "pause",
  label: said.pause,
  title: said.pauseTitle,
  about: said.pauseAbout,
  permission: "steer",
  fields: () => [reason()],
  command: (one, values) => command("pause", reasonWords(values), target(one.run.run_id)),
  send: async (one, values) => {
    const body = { reason: text(values, "reason") };
    return acted(one, await send("post", "/api/runs/{run}/pause", { parts: parts(one), body }), said.paused);
  },
};

const resume: Act<RunTarget> = {
  name: "resume",
  label: said.resume,
  permission: "steer",
  command: (one) => command("resume", target(one.run.run_id)),
  send: async (one) => acted(one, await send("post", "/api/runs/{run}/resume", { parts: parts(one) }), said.resumed),
};

const retry: Act<RunTarget> = {
  name: "retry",
  label: said.retry,
  permission: "steer",
  command: (one) => command("retry", target(one.run.run_id)),
  send: async (one) => acted(one, await send("post", "/api/runs/{run}/retry", { parts: parts(one) }), said.retried),
};

const resumeRollback: Act<RunTarget> = {
  name: "resume_rollback",
  label: said.resumeRollback,
  permission: "steer",
  command: (one) => command("rollback resume", target(one.run.run_id)),
  send: async (one) =>
    acted(one, await send("post", "/api/runs/{run}/resume-rollback", { parts: parts(one) }), said.rollbackResumed),
};

const signal: Act<RunTarget> = {
  name: "signal",
  label: said.signal,
  title: said.signalTitle,
  permission: "steer",
  prepare: async (one) => {
    const found = await read("/api/workflows/{workflow}", { parts: { workflow: one.run.workflow } });
    const own = found.workflows.find((each) => each.version === one.run.version);
    return { ...one, signals: own?.signals ?? null };
  },
  fields: (one, values) => {
    const names = [...new Set([...one.awaited, ...(one.signals ?? []).map((each) => each.name)])];
    const initial = names[0] ?? "";
    const name = String(values["name"] ?? initial);
    const schema = one.signals?.find((each) => each.name === name)?.payload ?? null;
    const help = one.awaited.includes(name) ? said.awaited : said.notAwaited;
    return [
      names.length > 1
        ? { name: "name", label: said.signalName, kind: "select", options: names.map((each) => ({ value: each, label: each })), initial, help }
        : { name: "name", label: said.signalName, kind: "text", initial, isRequired: true, help },
      typedField("payload", said.payload, schema),
    ];
  },
  command: (one, values) =>
    withInput(command("signal", target(one.run.run_id, text(values, "name") || "NAME")), text(values, "payload") || "null"),
  send: async (one, values) => {
    const body = { name: text(values, "name"), payload: readJson(values, "payload", said.payload), if_missing: "raise" as const };
    const answer = await send("post", "/api/runs/{run}/signals", { parts: parts(one), body });
    return { ...done(one, said.signalled(body.name)), text: said.deliveries[answer.delivery] };
  },
};

/** A field for a value with a type, or for any JSON. */
function typedField(name: string, label: string, schema: Schema | null): Field {
  const initial = schema ? JSON.stringify(exampleOf(schema), null, 2) : "null";
  return { name, label, kind: "json", schema, initial, help: schema ? said.typedHelp : said.jsonHelp };
}

/** Whether the place to skip can have a result: a wait for a time has none. */
function takesResult(one: RunTarget, values: Values): boolean {
  return one.skippable?.places.find((place) => place.path === values["path"])?.takes_result !== false;
}

/** So many places are offered to choose among; of more, the path is written. */
const PLACES_MAX = 50;

/** JSON in one line, as a command has it. */
function oneLine(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json)) ?? "null";
  } catch {
    return json || "null";
  }
}

interface RepairParts {
  name: string;
  label: string;
  title: string;
  about: string;
  prepare?: (one: RunTarget) => Promise<RunTarget>;
  fields: (one: RunTarget, values: Values) => Field[];
  words: (one: RunTarget, values: Values) => string;
  ask: (one: RunTarget, values: Values, isDryRun: boolean) => Promise<Repair>;
  outcome: (found: Repair) => string;
}

/** A repair can be planned before it is done: a dry run shows what is kept and what runs again. */
function repair(given: RepairParts): Act<RunTarget> {
  return {
    name: given.name,
    label: given.label,
    title: given.title,
    about: given.about,
    permission: "steer",
    ...(given.prepare ? { prepare: given.prepare } : {}),
    fields: given.fields,
    command: given.words,
    plan: (one, values) => given.ask(one, values, true),
    send: async (one, values) => {
      const found = await given.ask(one, values, false);
      const link = found.fork_id ? { href: toRun(found.fork_id), text: words.show } : undefined;
      return { ...done(one, given.outcome(found)), ...(link ? { link } : {}) };
    },
  };
}

const redrive = repair({
  name: "redrive",
  label: said.redrive,
  title: said.redriveTitle,
  about: said.redriveAbout,
  fields: (one) => [
    { name: "from", label: said.from, kind: "text", initial: "", help: said.fromHelp(one.path) },
    {
      name: "version",
      label: said.version,
      kind: "choice",
      initial: "same",
      options: [
        { value: "same", label: said.sameVersion(one.run.version) },
        { value: "new", label: said.newVersion },
      ],
    },
    reason(),
  ],
  words: (one, values) =>
    command(
      "redrive",
      text(values, "from") !== "" && [`--from=${text(values, "from")}`],
      values["version"] === "new" && "--version new",
      reasonWords(values),
      target(one.run.run_id),
    ),
  ask: (one, values, isDryRun) => {
    const from = text(values, "from");
    const version = values["version"] === "new" ? ("new" as const) : ("same" as const);
    const body = { ...(from ? { from } : {}), version, reason: text(values, "reason"), dry_run: isDryRun };
    return send("post", "/api/runs/{run}/redrive", { parts: parts(one), body: body as never });
  },
  outcome: () => said.redriven,
});

const rewind = repair({
  name: "rewind",
  label: said.rewind,
  title: said.rewindTitle,
  about: said.rewindAbout,
  fields: (one) => [path(one.path, said.rewindTo), reason()],
  words: (one, values) => command("rewind", reasonWords(values), target(one.run.run_id, text(values, "path") || "PATH")),
  ask: (one, values, isDryRun) =>
    send("post", "/api/runs/{run}/rewind", {
      parts: parts(one),
      body: { path: text(values, "path"), reason: text(values, "reason"), dry_run: isDryRun },
    }),
  outcome: () => said.rewound,
});

const skip = repair({
  name: "skip",
  label: said.skip,
  title: said.skipTitle,
  about: said.skipAbout,
  prepare: async (one) => ({ ...one, skippable: await read("/api/runs/{run}/skippable", { parts: parts(one) }) }),
  fields: (one, values) => {
    const places = one.skippable?.places ?? [];
    const initial = (places.find((place) => place.path === one.path) ?? places[0])?.path ?? one.path;
    const chosen = places.find((place) => place.path === (values["path"] ?? initial));
    const where: Field =
      places.length > 0 && places.length <= PLACES_MAX
        ? { name: "path", label: said.skipPath, kind: "select", initial, options: places.map((place) => ({ value: place.path, label: place.path })) }
        : { ...path(initial, said.skipPath), help: one.skippable?.why_not || said.pathHelp };
    const result = !takesResult(one, { path: initial, ...values }) ? [] : [typedField("result", said.result, chosen?.schema ?? null)];
    return [where, ...result, reason()];
  },
  words: (one, values) =>
    command(
      "skip",
      takesResult(one, values) && [`--result=${oneLine(text(values, "result"))}`],
      reasonWords(values),
      target(one.run.run_id, text(values, "path") || "PATH"),
    ),
  ask: async (one, values, isDryRun) => {
    const result = takesResult(one, values) ? { result: readJson(values, "result", said.result) } : {};
    const body = { path: text(values, "path"), ...result, reason: text(values, "reason"), dry_run: isDryRun };
    return send("post", "/api/runs/{run}/skip", { parts: parts(one), body: body as never });
  },
  outcome: () => said.skipped,
});

const fork = repair({
  name: "fork",
  label: said.fork,
  title: said.forkTitle,
  about: said.forkAbout,
  fields: (one) => [
    { ...path(one.path || "/", said.forkFrom), name: "from", help: said.forkHelp },
    { name: "key", label: said.forkKey, kind: "text", initial: "", help: said.forkKeyHelp },
    reason(),
  ],
  words: (one, values) =>
    command(
      "fork",
      [`--from=${text(values, "from") || "PATH"}`],
      text(values, "key") !== "" && [`--key=${text(values, "key")}`],
      reasonWords(values),
      target(one.run.run_id),
    ),
  ask: (one, values, isDryRun) => {
    const key = text(values, "key");
    const body = { from: text(values, "from"), ...(key ? { key } : {}), reason: text(values, "reason"), dry_run: isDryRun };
    return send("post", "/api/runs/{run}/fork", { parts: parts(one), body: body as never });
  },
  outcome: (found) => said.forked(found.fork_id ?? ""),
});

export const runActs = { cancel, pause, resume, retry, resumeRollback, signal, redrive, rewind, skip, fork };

/** What can be done to a run in its status, the most useful first. The server has the last word: it knows more. */
const OFFERED: Record<RunStatus, Act<RunTarget>[]> = {
  pending: [pause, cancel],
  running: [pause, fork, cancel],
  waiting: [signal, skip, pause, rewind, fork, cancel],
  paused: [resume, skip, rewind, fork, cancel],
  cancelling: [],
  compensating: [],
  compensation_failed: [resumeRollback, fork],
  completed: [fork],
  failed: [retry, redrive, skip, rewind, fork],
  compensated: [fork],
  cancelled: [fork],
  continued: [],
};

/** The names of the acts that suit a status. */
export function actsIn(status: RunStatus): string[] {
  return OFFERED[status].map((act) => act.name);
}

export function offersOf(one: RunTarget): Offer[] {
  const isHeld = one.run.hold !== null && one.run.status !== "paused";
  const fits = (act: Act<RunTarget>) => (act !== signal || one.awaited.length > 0) && (act !== skip || one.path !== "");
  return OFFERED[one.run.status].filter(fits).map((act) => offer(act === pause && isHeld ? resume : act, one));
}

/** The offers with those first that the server advises. */
export function advised(offers: Offer[], why: Why | undefined): Offer[] {
  const verbs = (why?.next ?? []).map((advice) => ADVICE[advice.verb]);
  const rank = (one: Offer) => {
    const place = verbs.indexOf(one.act.name);
    return place === -1 ? verbs.length : place;
  };
  return [...offers].sort((one, other) => rank(one) - rank(other));
}

/** The verbs of advice that are acts here. */
const ADVICE: Record<string, string> = {
  cancel: "cancel",
  fork: "fork",
  pause: "pause",
  resume: "resume",
  retry: "retry",
  rewind: "rewind",
  "rollback resume": "resume_rollback",
  signal: "signal",
  skip: "skip",
};
