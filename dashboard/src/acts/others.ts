// Acts that are not done to one run: starting one, and resuming workflows.

import { type Act, type Field, readJson, type Values } from "../acts";
import { type Schemas, send } from "../api";
import { changed } from "../live";
import { toRun } from "../place";
import { command, target, withInput } from "../shell";
import { exampleOf } from "../schemas";
import { words } from "../words";

export type Workflow = Schemas["WorkflowBody"];

const said = words.otherActs;

/** Start a run of one of these workflows. */
export const start: Act<Workflow[]> = {
  name: "start",
  label: said.start,
  title: said.startTitle,
  permission: "steer",
  fields: (workflows, values) => {
    const one = chosen(workflows, values);
    const input: Field = {
      name: "input",
      label: said.input,
      kind: "json",
      initial: JSON.stringify(exampleOf(one?.input), null, 2),
      help: one?.input ? said.inputHelp : said.inputUnknown,
    };
    return [
      ...(workflows.length > 1 ? [choice(workflows)] : []),
      ...(one?.takes_input === false ? [] : [input]),
      { name: "key", label: said.key, kind: "text", initial: "", help: said.keyHelp },
    ];
  },
  command: (workflows, values) => {
    const key = text(values, "key");
    const line = command("start", key !== "" && [`--key=${key}`], target(chosen(workflows, values)?.name ?? ""));
    return withInput(line, text(values, "input") || "null");
  },
  send: async (workflows, values) => {
    const one = chosen(workflows, values);
    const workflow = one?.name ?? "";
    const input = one?.takes_input === false ? null : readJson(values, "input", said.input);
    const body = { workflow, input, key: text(values, "key") || null };
    const answer = await send("post", "/api/runs", { body: body as never });
    changed("runs", "home", "figures");
    return {
      title: answer.is_new ? said.started(workflow) : said.found(answer.run.key ?? answer.run.run_id),
      text: answer.note,
      link: { href: toRun(answer.run.run_id), text: words.show },
    };
  },
};

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function chosen(workflows: Workflow[], values: Values): Workflow | undefined {
  return workflows.find((one) => one.name === values["workflow"]) ?? workflows[0];
}

function choice(workflows: Workflow[]): Field {
  return {
    name: "workflow",
    label: said.workflow,
    kind: "choice",
    initial: workflows[0]?.name ?? "",
    options: workflows.map((one) => ({ value: one.name, label: one.name, help: one.summary })),
  };
}

/** The workflows that a person can start: the newest version of each, without those of stepwell itself. */
export function startable(workflows: Workflow[] | undefined): Workflow[] {
  return workflows?.filter((one) => one.is_newest && !one.name.startsWith("stepwell.")) ?? [];
}

/** Pause one workflow. */
export const pauseWorkflow: Act<string> = {
  name: "pause_workflow",
  label: words.workflows.pause,
  title: words.workflows.pauseTitle,
  about: words.workflows.pauseAbout,
  permission: "steer",
  fields: () => [{ name: "reason", label: words.runActs.reason, kind: "area", help: words.runActs.reasonHelp }],
  command: (name, values) =>
    command("workflow pause", text(values, "reason") !== "" && ["--reason", text(values, "reason")], target(name)),
  send: async (name, values) => {
    const body = { reason: text(values, "reason") };
    const answer = await send("post", "/api/workflows/{workflow}/pause", { parts: { workflow: name }, body });
    changed("home", "workflow", "doctor");
    return { title: words.workflows.paused(name), text: answer.changed ? "" : words.workflows.wasPaused };
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
    changed("home", "workflow", "doctor");
    return { title: said.resumed(name) };
  },
};
