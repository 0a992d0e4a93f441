// What can be done to dead letters: one, or all that match.

import { type Act, type Field, type Offer, offer, type Outlook, readJson, type Values } from "../acts";
import { Problem, read, type Schemas, send } from "../api";
import { changed } from "../live";
import { isHidden } from "../parts/json";
import { toRun } from "../place";
import { command, target, withInput } from "../shell";
import { words } from "../words";

export type Letter = Schemas["LetterBody"];
export const KINDS = ["event", "signal", "poison", "history", "unserved", "hook"] as const;
export type Kind = (typeof KINDS)[number];

const said = words.letterActs;
const LISTED_MAX = 12;
const COUNTED_MAX = 500;

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function reread(): void {
  changed("letter", "doctor", "home", "runs", "events", "outbox");
}

/** Whether it has a payload that can be edited: a run has none. */
export function hasPayload(one: Letter): boolean {
  return one.kind === "event" || one.kind === "signal" || one.kind === "hook";
}

/** The payload that an edit begins with: what was sent, as far as it can be read. */
export function payloadOf(one: Letter): string {
  if (isHidden(one.payload)) return "null";
  let payload = one.payload;
  if (one.kind === "event" && typeof payload === "object" && payload !== null) payload = (payload as { payload?: unknown }).payload;
  if (one.kind === "hook" && typeof payload === "string") {
    try {
      payload = JSON.parse(payload) as unknown;
    } catch {
      // It is no JSON: an edit begins with the text.
    }
  }
  return JSON.stringify(payload ?? null, null, 2);
}

const TO: Field = { name: "to", label: said.to, kind: "text", help: said.toHelp };

function handled(one: Letter, isChanged: boolean, title: string) {
  reread();
  return {
    title: isChanged ? title : said.wasHandled(one.letter),
    ...(one.run_id ? { link: { href: toRun(one.run_id), text: said.showRun } } : {}),
  };
}

const retry: Act<Letter> = {
  name: "retry_letter",
  label: said.retry,
  permission: "steer",
  command: (one) => command("dlq retry", target(one.letter)),
  send: async (one) => {
    const answer = await send("post", "/api/dead-letters/{letter}/retry", { parts: { letter: one.letter }, body: { to: null } });
    return handled(one, answer.changed, said.retried(one.letter));
  },
};

const redirect: Act<Letter> = {
  name: "redirect_letter",
  label: said.redirect,
  title: said.redirectTitle,
  permission: "steer",
  fields: () => [{ ...TO, isRequired: true }],
  command: (one, values) => command("dlq retry", ["--to", text(values, "to") || "RUN"], target(one.letter)),
  send: async (one, values) => {
    const answer = await send("post", "/api/dead-letters/{letter}/retry", { parts: { letter: one.letter }, body: { to: text(values, "to") } });
    return handled(one, answer.changed, said.retried(one.letter));
  },
};

const edit: Act<Letter> = {
  name: "edit_letter",
  label: said.edit,
  title: said.editTitle,
  about: said.editAbout,
  permission: "steer",
  fields: (one) => [
    { name: "payload", label: words.runActs.payload, kind: "json", initial: payloadOf(one), help: one.fix },
    ...(one.kind === "signal" ? [TO] : []),
  ],
  command: (one, values) =>
    withInput(command("dlq edit", text(values, "to") !== "" && ["--to", text(values, "to")], target(one.letter)), text(values, "payload") || "null"),
  send: async (one, values) => {
    const body = { payload: readJson(values, "payload", words.runActs.payload), to: text(values, "to") || null };
    const answer = await send("post", "/api/dead-letters/{letter}/edit", { parts: { letter: one.letter }, body: body as never });
    return handled(one, answer.changed, said.edited(one.letter));
  },
};

const REASON: Field = { name: "reason", label: words.runActs.reason, kind: "area", isRequired: true, help: said.reasonHelp };

const drop: Act<Letter> = {
  name: "drop_letter",
  label: said.drop,
  title: said.dropTitle,
  permission: "steer",
  isDangerous: true,
  fields: () => [REASON],
  command: (one, values) => command("dlq drop", ["--reason", text(values, "reason") || "REASON"], target(one.letter)),
  send: async (one, values) => {
    const body = { reason: text(values, "reason") };
    const answer = await send("post", "/api/dead-letters/{letter}/drop", { parts: { letter: one.letter }, body });
    return handled(one, answer.changed, said.dropped(one.letter));
  },
};

/** Which letters: all of a kind, or all. */
export interface Which {
  kind: Kind | "";
}

async function matching(which: Which): Promise<Outlook> {
  const query = { ...(which.kind ? { kind: which.kind } : {}), limit: COUNTED_MAX };
  const found = await read("/api/dead-letters", { query: query as never });
  const lines = found.letters.map((one) => ({ icon: "dlq" as const, text: titleOf(one), note: one.reason }));
  const title = said.matching(lines.length, found.next !== null);
  return { groups: [{ title, lines: lines.slice(0, LISTED_MAX), more: lines.length - LISTED_MAX, none: said.noneMatch }] };
}

/** A letter in a few words. */
export function titleOf(one: Pick<Letter, "kind" | "name" | "run_id"> & { key?: string | null; target?: string }): string {
  const run = one.key ?? one.run_id;
  return words.letters.titles(one.kind, one.name, run, one.target ?? "");
}

function onAll(isDrop: boolean): Act<Which> {
  return {
    name: isDrop ? "drop_letters" : "retry_letters",
    label: isDrop ? said.dropAll : said.retryAll,
    title: isDrop ? said.dropAllTitle : said.retryAllTitle,
    about: isDrop ? said.dropAllAbout : said.retryAllAbout,
    permission: "steer",
    isDangerous: isDrop,
    fields: (which) => [
      {
        name: "kind",
        label: said.kind,
        kind: "select",
        initial: which.kind,
        options: [{ value: "", label: said.everyKind }, ...KINDS.map((value) => ({ value, label: words.letters.kinds[value] }))],
      },
      ...(isDrop ? [REASON] : []),
    ],
    isPlanLive: true,
    planWords: { title: words.plan.title, before: words.reading, dry: said.nothingDone },
    plan: (_, values) => matching({ kind: text(values, "kind") as Kind | "" }),
    command: (_, values) => {
      const kind = text(values, "kind");
      return command(isDrop ? "dlq drop" : "dlq retry", "--all", kind !== "" && ["--kind", kind], isDrop && ["--reason", text(values, "reason") || "REASON"]);
    },
    send: async (_, values) => {
      const kind = text(values, "kind");
      // Without a reason the letters would be retried.
      if (isDrop && text(values, "reason") === "") throw new Problem({ status: 422, title: said.noReason });
      const body = { kind: kind || null, ...(isDrop ? { reason: text(values, "reason") } : {}) };
      const answer = await send("post", "/api/dead-letters/all", { body: body as never });
      reread();
      const left = Object.values(answer.failed);
      const title = isDrop ? said.droppedMany(answer.handled) : said.retriedMany(answer.handled);
      return { title, ...(left.length > 0 ? { text: said.left(left.length, left[0] ?? "") } : {}) };
    },
  };
}

export const retryAll = onAll(false);
export const dropAll = onAll(true);
export const letterActs = { retry, redirect, edit, drop };

/** What can be done to a letter, the one first that can succeed. */
export function offersOf(one: Letter): Offer[] {
  const acts: Record<string, Act<Letter>[]> = {
    event: [retry, edit, drop],
    signal: [edit, retry, redirect, drop],
    hook: [edit, retry, drop],
    poison: [retry, drop],
    history: [retry, drop],
    unserved: [drop],
  };
  return (acts[one.kind] ?? []).map((act) => offer(act, one));
}
