// Acts that are not done to one run: starting one, and resuming workflows.

import type { Act } from "../acts";
import { readJson } from "../acts";
import { type Schemas, send } from "../api";
import { changed } from "../live";
import { toRun } from "../place";
import { command, target, withInput } from "../shell";
import { exampleOf } from "../schemas";
import { words } from "../words";

export type Workflow = Schemas["WorkflowBody"];

const said = words.otherActs;

/** Start a run of one of these workflows, or of the first. */
export const start: Act<Workflow> = {
  name: "start",
  label: said.start,
  title: said.startTitle,
  permission: "steer",
  fields: (one) => [
    ...(one.takes_input === false
      ? []
      : [{ name: "input", label: said.input, kind: "json" as const, initial: JSON.stringify(exampleOf(one.input), null, 2), help: one.input ? said.inputHelp : said.inputUnknown }]),
    { name: "key", label: said.key, kind: "text", initial: "", help: said.keyHelp },
  ],
  command: (one, values) => {
    const key = String(values["key"] ?? "").trim();
    const line = command("start", key !== "" && [`--key=${key}`], target(one.name));
    return withInput(line, String(values["input"] ?? "null") || "null");
  },
  send: async (one, values) => {
    const key = String(values["key"] ?? "").trim();
    const input = one.takes_input === false ? null : readJson(values, "input", said.input);
    const body = { workflow: one.name, input, key: key || null };
    const answer = await send("post", "/api/runs", { body: body as never });
    changed("runs", "home", "figures");
    return {
      title: answer.is_new ? said.started(one.name) : said.found(answer.run.key ?? answer.run.run_id),
      text: answer.note,
      link: { href: toRun(answer.run.run_id), text: words.show },
    };
  },
};

/** Resume one workflow, or all of them (null), that a person has paused. */
export const resumeWorkflow: Act<string | null> = {
  name: "resume_workflow",
  label: said.resume,
  permission: "steer",
  command: (name) => (name === null ? command("resume", "--all") : command("workflow resume", target(name))),
  send: async (name) => {
    if (name === null) await send("post", "/api/holds/resume");
    else await send("post", "/api/workflows/{workflow}/resume", { parts: { workflow: name } });
    changed("home");
    return { title: said.resumed(name) };
  },
};
