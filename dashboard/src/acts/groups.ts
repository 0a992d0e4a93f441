// What can be done to all runs of a group of failures. A worker does it, run by run.

import type { Act, Field, Values } from "../acts";
import { Problem, read, type Schemas, send } from "../api";
import { changed } from "../live";
import { toRun } from "../place";
import { command, target } from "../shell";
import { words } from "../words";

export type Group = Schemas["ErrorGroupBody"];

/** A group, and the filter that it was found with. */
export interface GroupTarget {
  group: Group;
  q: string;
}

const said = words.errors;

type BulkVerb = "redrive" | "resume_rollback";

interface Parts {
  verb: BulkVerb;
  /** The runs of a group that it can be done to. */
  status: string;
  label: string;
  title: string;
  about: string;
  done: string;
  line: string;
  fields: Field[];
  options: (values: Values) => Record<string, unknown>;
  words: (values: Values) => (string | string[] | false)[];
}

function onGroup(parts: Parts): Act<GroupTarget> {
  return {
    name: parts.verb,
    label: parts.label,
    title: parts.title,
    about: parts.about,
    permission: "steer",
    fields: () => parts.fields,
    command: (one, values) => {
      const chosen = command("failures", [`--where=${withStatus(one.q, parts.status)}`, "-o", "ids"], target(one.group.fingerprint));
      return `${chosen} | ${command(parts.line, ...parts.words(values), "-")}`;
    },
    send: async (one, values) => {
      // The runs are read again: those that have been continued since are not acted on.
      const query = { q: withStatus(one.q, parts.status) };
      const found = await read("/api/errors/{fingerprint}", { parts: { fingerprint: one.group.fingerprint }, query }).catch(
        (error: unknown) => {
          if (error instanceof Problem && error.status === 404) return undefined;
          throw error;
        },
      );
      const runs = found?.samples.map((run) => run.run_id) ?? [];
      if (runs.length === 0) {
        changed("errors");
        throw new Problem({ status: 409, title: said.gone, fix: said.goneFix });
      }
      const body = { verb: parts.verb, runs, options: parts.options(values) };
      const bulk = await send("post", "/api/bulks", { body: body as never });
      changed("errors", "home", "runs");
      return {
        title: said.ordered(parts.done, bulk.matched),
        text: said.orderedText(bulk.name ?? ""),
        ...(bulk.run_id ? { link: { href: toRun(bulk.run_id), text: words.show } } : {}),
      };
    },
  };
}

/** A filter that finds only runs in this status. */
export function withStatus(q: string, status: string): string {
  const others = q.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];
  return [...others.filter((term) => !/^status:/i.test(term)), `status:${status}`].join(" ");
}

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

/** Redrive all failed runs of a group. */
export function redriveGroup(count: number): Act<GroupTarget> {
  return onGroup({
    verb: "redrive",
    status: "failed",
    label: said.redrive(count),
    title: said.redriveTitle,
    about: said.redriveAbout,
    done: words.runActs.redrive.replace("…", ""),
    line: "redrive",
    fields: [
      {
        name: "version",
        label: said.version,
        kind: "choice",
        initial: "same",
        options: [
          { value: "same", label: said.sameVersion },
          { value: "new", label: said.newVersion },
        ],
      },
      { name: "reason", label: words.runActs.reason, kind: "area", help: words.runActs.reasonHelp },
    ],
    options: (values) => ({
      version: values["version"] === "new" ? "new" : "same",
      ...(text(values, "reason") ? { reason: text(values, "reason") } : {}),
    }),
    words: (values) => [
      values["version"] === "new" && "--version new",
      text(values, "reason") !== "" && ["--reason", text(values, "reason")],
    ],
  });
}

/** Resume all incomplete rollbacks of a group. */
export function resumeRollbacks(count: number): Act<GroupTarget> {
  return onGroup({
    verb: "resume_rollback",
    status: "compensation_failed",
    label: said.rollback(count),
    title: said.rollbackTitle,
    about: said.rollbackAbout,
    done: words.runActs.resumeRollback,
    line: "rollback resume",
    fields: [],
    options: () => ({}),
    words: () => [],
  });
}
