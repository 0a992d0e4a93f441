// What can be done to many runs at once. A worker does it, run by run, and keeps the outcome of each.

import { type Act, type Field, type Offer, offer, type Outlook, type Values } from "../acts";
import { Problem, type Run, type RunStatus, type Schemas, send } from "../api";
import { number } from "../formats";
import { changed } from "../live";
import { to } from "../place";
import { command, word } from "../shell";
import { looks, shownAs } from "../statuses";
import { words } from "../words";
import { actsIn } from "./runs";

export type Bulk = Schemas["BulkBody"];
type Verb = Schemas["BulkIn"]["verb"];

/** The chosen runs: these, or all that match a filter. */
export interface Chosen {
  runs: Run[];
  where: string | null;
  done?: () => void;
}

/** The key of each order, by what it says: after a lost answer, the same order is sent again and done once. */
const keys = new WeakMap<Chosen, Map<string, string>>();

function keyOf(one: Chosen, body: unknown): string {
  const known = keys.get(one) ?? new Map<string, string>();
  keys.set(one, known);
  const text = JSON.stringify(body);
  const key = known.get(text) ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  known.set(text, key);
  return key;
}

const said = words.bulk;

interface Parts {
  verb: Verb;
  line: string;
  fields?: Field[];
  options?: (values: Values) => Record<string, unknown>;
  words?: (values: Values) => (string | string[] | false)[];
  isDangerous?: true;
}

const reason: Field = { name: "reason", label: words.runActs.reason, kind: "area", help: words.runActs.reasonHelp };

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function reasonOption(values: Values): Record<string, unknown> {
  return text(values, "reason") ? { reason: text(values, "reason") } : {};
}

function reasonWords(values: Values): string[] | false {
  return text(values, "reason") !== "" && ["--reason", text(values, "reason")];
}

const PARTS: Parts[] = [
  {
    verb: "redrive",
    line: "redrive",
    fields: [
      {
        name: "version",
        label: words.errors.version,
        kind: "choice",
        initial: "same",
        options: [
          { value: "same", label: words.errors.sameVersion },
          { value: "new", label: words.errors.newVersion },
        ],
      },
      reason,
    ],
    options: (values) => ({ version: values["version"] === "new" ? "new" : "same", ...reasonOption(values) }),
    words: (values) => [values["version"] === "new" && "--version new", reasonWords(values)],
  },
  { verb: "retry", line: "retry" },
  { verb: "resume_rollback", line: "rollback resume" },
  { verb: "resume", line: "resume" },
  { verb: "pause", line: "pause", fields: [reason], options: reasonOption, words: (values) => [reasonWords(values)] },
  {
    verb: "cancel",
    line: "cancel",
    isDangerous: true,
    fields: [
      { name: "compensate", label: words.runActs.undoFirst, kind: "check", initial: true, help: words.runActs.undoFirstHelp },
      reason,
    ],
    options: (values) => ({ compensate: values["compensate"] !== false, ...reasonOption(values) }),
    words: (values) => [values["compensate"] === false && "--now", reasonWords(values)],
  },
];

/** What can be done to the chosen runs. Of all that match a filter, their statuses are not known here. */
export function bulkOffers(chosen: Chosen): Offer[] {
  return PARTS.flatMap((parts) => {
    const fitting = chosen.runs.filter((run) => actsIn(run.status).includes(parts.verb)).length;
    if (chosen.where === null && fitting === 0) return [];
    return [offer(actOf(parts, chosen.where === null ? fitting : undefined), chosen)];
  });
}

function actOf(parts: Parts, fitting: number | undefined): Act<Chosen> {
  const name = said.verbs[parts.verb] ?? parts.verb;
  return {
    name: `bulk ${parts.verb}`,
    label: fitting === undefined ? `${name}…` : `${name} ${number(fitting)}…`,
    title: said.title(name),
    about: said.about,
    permission: "steer",
    ...(parts.isDangerous ? { isDangerous: true } : {}),
    fields: (one) => [
      ...(parts.fields ?? []),
      ...(parts.isDangerous && isMany(one) ? [{ name: "count", label: said.count, kind: "text", isRequired: true, help: said.countHelp } satisfies Field] : []),
    ],
    command: (one, values) => {
      const options = parts.words?.(values) ?? [];
      if (one.where !== null) return command(parts.line, [`--where=${one.where}`], ...options);
      return `echo ${one.runs.map((run) => word(run.run_id)).join(" ")} | ${command(parts.line, ...options, "-")}`;
    },
    isPlanLive: true,
    planWords: said.plan,
    plan: async (one) => outlookOf(parts.verb, name, await ask(parts.verb, one, {}, true), one),
    send: async (one, values) => {
      const options = parts.options?.(values) ?? {};
      const counted = parts.isDangerous && isMany(one) ? await confirm(parts.verb, one, text(values, "count")) : one.runs.length;
      const bulk = await ask(parts.verb, one, options, false);
      one.done?.();
      changed("runs", "home", "errors", "bulk");
      return {
        title: said.ordered(name, bulk.matched || counted),
        text: said.orderedText,
        link: { href: to(`bulk/${encodeURIComponent(bulk.name ?? "")}`), text: words.show },
      };
    },
  };
}

function isMany(one: Chosen): boolean {
  return one.where !== null || one.runs.length > 1;
}

function ask(verb: Verb, one: Chosen, options: Record<string, unknown>, isDryRun: boolean): Promise<Bulk> {
  const which = one.where !== null ? { where: one.where } : { runs: one.runs.map((run) => run.run_id) };
  const body = { verb, ...which, options, dry_run: isDryRun };
  return send("post", "/api/bulks", { body: body as never, headers: isDryRun ? {} : { "idempotency-key": keyOf(one, body) } });
}

/** How many runs match now. Raises `Problem` unless somebody has typed just this number. */
async function confirm(verb: Verb, one: Chosen, typed: string): Promise<number> {
  const { matched } = await ask(verb, one, {}, true);
  if (typed.replace(/[\s\u202f,.]/g, "") !== String(matched))
    throw new Problem({ status: 409, title: said.miscounted(number(matched)), fix: said.miscountedFix });
  return matched;
}

/** What an act would do to the runs that it finds. */
export function outlookOf(verb: Verb, name: string, plan: Bulk, one: Chosen): Outlook {
  const statuses = Object.entries(plan.statuses ?? {}) as [RunStatus, number][];
  const [fitting, others] = [true, false].map((wanted) =>
    statuses.filter(([status]) => actsIn(status).includes(verb) === wanted),
  ) as [[RunStatus, number][], [RunStatus, number][]];
  const lines = (counts: [RunStatus, number][]) =>
    counts.map(([status, runs]) => {
      const shown = shownAs(status);
      return { icon: looks[shown].icon, text: `${number(runs)} ${words.statuses[shown]}` };
    });
  const sum = (counts: [RunStatus, number][]) => counts.reduce((total, [, runs]) => total + runs, 0);
  const samples = plan.samples ?? [];
  return {
    warnings: one.where === "" ? [said.everything] : [],
    groups: [
      { title: said.will(name, number(sum(fitting))), lines: lines(fitting), none: said.nothingFits },
      ...(others.length > 0 ? [{ title: said.wont(number(sum(others))), lines: lines(others) }] : []),
      {
        title: said.samples,
        lines: samples.map((run) => ({
          icon: looks[shownAs(run.status)].icon,
          text: `${run.key ?? run.run_id} · ${run.workflow}`,
        })),
        more: plan.matched - samples.length,
        none: said.noRun,
      },
    ],
  };
}

/** Stop an act between two steps. */
export const abort: Act<Bulk> = {
  name: "abort_bulk",
  label: said.abort,
  title: said.abortTitle,
  about: said.abortAbout,
  permission: "steer",
  isDangerous: true,
  fields: () => [],
  command: (bulk) => command("bulk abort", [bulk.name ?? ""]),
  send: async (bulk) => {
    const after = await send("post", "/api/bulks/{bulk}/abort", { parts: { bulk: bulk.name ?? "" } });
    changed("bulk");
    return { title: said.aborted(bulk.name ?? ""), text: after.state === "done" ? said.wasOver : "" };
  },
};
