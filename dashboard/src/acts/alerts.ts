// What can be done to a rule that watches runs, and how a new one is made.

import { type Act, type Field, type Offer, offer, type Values } from "../acts";
import { type Schemas, send } from "../api";
import { now } from "../clock";
import { changed } from "../live";
import { toRun } from "../place";
import { command, target } from "../shell";
import { words } from "../words";
import type { Workflow } from "./others";

export type Alert = Schemas["AlertBody"];
export type RuleKind = "failed" | "count" | "consecutive" | "stalled" | "rollback_incomplete" | "oldest_ready";

const said = words.alertActs;

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function reread(): void {
  changed("alert", "doctor", "home");
}

/** Whether nobody is told about it now. */
export function isMuted(one: Alert): boolean {
  return one.muted_until !== null && Date.parse(one.muted_until) > now();
}

const acknowledge: Act<Alert> = {
  name: "acknowledge_alert",
  label: said.acknowledge,
  title: said.acknowledgeTitle,
  about: said.acknowledgeAbout,
  permission: "steer",
  fields: () => [{ name: "note", label: said.note, kind: "area", help: said.noteHelp }],
  command: (one, values) => command("alert ack", text(values, "note") !== "" && ["--note", text(values, "note")], target(one.name)),
  send: async (one, values) => {
    const body = { note: text(values, "note") };
    const answer = await send("post", "/api/alerts/{alert}/acknowledge", { parts: { alert: one.name }, body });
    reread();
    return { title: answer.changed ? said.acknowledged(one.name) : said.notFiring(one.name) };
  },
};

const mute: Act<Alert> = {
  name: "mute_alert",
  label: said.mute,
  title: said.muteTitle,
  about: said.muteAbout,
  permission: "steer",
  fields: () => [
    {
      name: "duration",
      label: said.duration,
      kind: "select",
      initial: "1h",
      options: Object.entries(said.durations).map(([value, label]) => ({ value, label })),
    },
    { name: "note", label: words.runActs.reason, kind: "area", help: said.noteHelp },
  ],
  command: (one, values) =>
    command("alert mute", ["--for", text(values, "duration")], text(values, "note") !== "" && ["--note", text(values, "note")], target(one.name)),
  send: async (one, values) => {
    const body = { duration: text(values, "duration"), note: text(values, "note") };
    await send("post", "/api/alerts/{alert}/mute", { parts: { alert: one.name }, body });
    reread();
    return { title: said.muted(one.name, said.durations[body.duration] ?? body.duration) };
  },
};

const unmute: Act<Alert> = {
  name: "unmute_alert",
  label: said.unmute,
  permission: "steer",
  command: (one) => command("alert mute", ["--for", "0s"], target(one.name)),
  send: async (one) => {
    await send("post", "/api/alerts/{alert}/mute", { parts: { alert: one.name }, body: { duration: "0s", note: "" } });
    reread();
    return { title: said.unmuted(one.name) };
  },
};

const test: Act<Alert> = {
  name: "test_alert",
  label: said.test,
  permission: "steer",
  command: (one) => command("alert test", target(one.name)),
  send: async (one) => {
    const answer = await send("post", "/api/alerts/{alert}/test", { parts: { alert: one.name } });
    reread();
    return { title: said.tested(one.name), text: said.testedText, link: { href: toRun(answer.run_id), text: words.show } };
  },
};

const remove: Act<Alert> = {
  name: "delete_alert",
  label: said.remove,
  title: said.removeTitle,
  permission: "steer",
  isDangerous: true,
  about: said.removeAbout,
  fields: () => [],
  command: (one) => command("alert delete", target(one.name)),
  send: async (one) => {
    await send("delete", "/api/alerts/{alert}", { parts: { alert: one.name } });
    reread();
    return { title: said.removed(one.name) };
  },
};

const FLAGS: Record<RuleKind, string> = {
  failed: "--failed",
  count: "--count",
  consecutive: "--consecutive",
  stalled: "--stalled",
  rollback_incomplete: "--rollback-incomplete",
  oldest_ready: "--oldest-ready",
};

/** The condition that the fields say, as the API takes it. */
export function conditionOf(values: Values): Record<string, unknown> {
  const kind = (text(values, "kind") || "failed") as RuleKind;
  const workflow = text(values, "workflow");
  const of = workflow === "" ? {} : { workflow };
  switch (kind) {
    case "failed":
      return { ...of, failed: true, ...(text(values, "within") ? { within: text(values, "within") } : {}) };
    case "count":
      return { ...of, count: Number(text(values, "least")), within: text(values, "within") };
    case "consecutive":
      return { ...of, consecutive: Number(text(values, "least")) };
    case "rollback_incomplete":
      return { ...of, rollback_incomplete: true };
    default:
      return { ...of, [kind]: text(values, "within") };
  }
}

/** Make a rule, or change one. The workflows are offered. */
export const create: Act<Workflow[]> = {
  name: "create_alert",
  label: said.create,
  title: said.createTitle,
  confirm: said.createIt,
  about: said.createAbout,
  permission: "steer",
  fields: (workflows, values) => {
    const kind = (text(values, "kind") || "failed") as RuleKind;
    const any = kind === "consecutive" ? [] : [{ value: "", label: said.anyWorkflow }];
    const span = (label: string, initial: string, isRequired = true): Field => ({ name: "within", label, kind: "text", initial, isRequired, help: said.spanHelp, isHalf: true });
    const least = (label: string): Field => ({ name: "least", label, kind: "text", initial: "5", isRequired: true, isHalf: true });
    const more: Record<RuleKind, Field[]> = {
      failed: [span(said.within, "1h", false)],
      count: [least(said.least), span(said.within, "10m")],
      consecutive: [least(said.inARow)],
      stalled: [span(said.without, "1d")],
      rollback_incomplete: [],
      oldest_ready: [span(said.dueFor, "15m")],
    };
    return [
      { name: "name", label: said.name, kind: "text", isRequired: true, help: said.nameHelp },
      {
        name: "kind",
        label: said.kind,
        kind: "choice",
        initial: "failed",
        options: Object.entries(said.kinds).map(([value, label]) => ({ value, label })),
      },
      {
        name: "workflow",
        label: said.workflow,
        kind: "select",
        initial: kind === "consecutive" ? (workflows[0]?.name ?? "") : "",
        options: [...any, ...workflows.map((one) => ({ value: one.name, label: one.name }))],
      },
      ...more[kind],
    ];
  },
  command: (_, values) => {
    const { workflow, within, ...rest } = conditionOf(values);
    const flags = Object.entries(rest).flatMap(([name, value]) => [FLAGS[name as RuleKind], ...(value === true ? [] : [String(value)])]);
    return command(
      "alert create",
      typeof workflow === "string" && ["--workflow", workflow],
      flags,
      typeof within === "string" && ["--within", within],
      target(text(values, "name") || "ALERT"),
    );
  },
  send: async (_, values) => {
    const name = text(values, "name");
    const answer = await send("put", "/api/alerts/{alert}", { parts: { alert: name }, body: conditionOf(values) as never });
    reread();
    return { title: answer.changed ? said.created(name) : said.unchanged(name) };
  },
};

export const alertActs = { create, acknowledge, mute, unmute, test, remove };

/** What can be done to a rule in its state, the most useful first. */
export function offersOf(one: Alert): Offer[] {
  const acts = [...(one.state === "firing" ? [acknowledge] : []), isMuted(one) ? unmute : mute, test, remove];
  return (one.unreadable ? [remove] : acts).map((act) => offer(act, one));
}
