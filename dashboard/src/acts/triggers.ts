// What can be done to a trigger.

import type { Act, Values } from "../acts";
import { type Schemas, send } from "../api";
import { changed } from "../live";
import { command, target } from "../shell";
import { words } from "../words";

export type Trigger = Schemas["TriggerBody"];

const said = words.triggers;

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function done(title: string, isChanged: boolean) {
  changed("triggers", "home", "doctor");
  return { title, text: isChanged ? "" : said.unchanged };
}

const pause: Act<Trigger> = {
  name: "pause_trigger",
  label: said.pause,
  title: said.pauseTitle,
  about: said.pauseAbout,
  permission: "steer",
  fields: () => [{ name: "reason", label: words.runActs.reason, kind: "area", help: words.runActs.reasonHelp }],
  command: (one, values) =>
    command("trigger pause", text(values, "reason") !== "" && ["--reason", text(values, "reason")], target(one.name)),
  send: async (one, values) => {
    const body = { reason: text(values, "reason") };
    const answer = await send("post", "/api/triggers/{trigger}/pause", { parts: { trigger: one.name }, body });
    return done(said.paused(one.name), answer.changed);
  },
};

const resume: Act<Trigger> = {
  name: "resume_trigger",
  label: said.resume,
  permission: "steer",
  command: (one) => command("trigger resume", target(one.name)),
  send: async (one) => {
    const answer = await send("post", "/api/triggers/{trigger}/resume", { parts: { trigger: one.name } });
    return done(said.resumed(one.name), answer.changed);
  },
};

const remove: Act<Trigger> = {
  name: "delete_trigger",
  label: said.delete,
  title: said.deleteTitle,
  about: said.deleteAbout,
  permission: "steer",
  isDangerous: true,
  fields: () => [],
  command: (one) => command("trigger delete", target(one.name)),
  send: async (one) => {
    const answer = await send("delete", "/api/triggers/{trigger}", { parts: { trigger: one.name } });
    return done(said.deleted(one.name), answer.changed);
  },
};

/** What suits its state. */
export const triggerActs: Record<Trigger["state"], Act<Trigger>[]> = {
  active: [pause, remove],
  paused: [resume, remove],
  undeclared: [pause, remove],
  deleted: [],
};
