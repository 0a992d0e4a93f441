// What can be done about events and signals that no run has read.

import { type Act, type Field, readJson, type Values } from "../acts";
import { Problem, type Schemas, send } from "../api";
import { changed } from "../live";
import { toRun } from "../place";
import { command, target, withInput } from "../shell";
import { words } from "../words";

export type Signal = Schemas["SignalBody"];

const said = words.events;

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

/** A key that belongs to what was typed: after a lost answer, the same is done once. */
const keys = new Map<string, string>();

function keyOf(body: unknown): string {
  const known = JSON.stringify(body);
  const key = keys.get(known) ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  keys.set(known, key);
  return key;
}

/** Publish an event on a topic, or on one that is typed. */
export const publish: Act<string> = {
  name: "publish",
  label: said.emit,
  title: said.emitTitle,
  about: said.emitAbout,
  permission: "steer",
  fields: (topic) => [
    { name: "topic", label: said.topic, kind: "text", initial: topic, isRequired: true },
    { name: "payload", label: said.payload, kind: "json", initial: "{}", help: words.runActs.jsonHelp },
    {
      name: "deliver",
      label: said.deliverTo,
      kind: "choice",
      initial: "all",
      options: [
        { value: "all", label: said.toAll },
        { value: "one", label: said.toOne },
      ],
    },
    { name: "retain", label: said.retain, kind: "text", initial: "", help: said.retainHelp },
  ],
  command: (_, values) =>
    withInput(
      command(
        "publish",
        values["deliver"] === "one" && "--deliver one",
        text(values, "retain") !== "" && [`--retain=${text(values, "retain")}`],
        target(text(values, "topic") || "TOPIC"),
      ),
      text(values, "payload") || "null",
    ),
  send: async (_, values) => {
    const retain = text(values, "retain");
    const body = {
      topic: text(values, "topic"),
      payload: readJson(values, "payload", said.payload),
      deliver: values["deliver"] === "one" ? "one" : "all",
      ...(retain ? { retain } : {}),
    };
    const key = keyOf(body);
    const answer = await send("post", "/api/events", { body: body as never, headers: { "idempotency-key": key } });
    keys.delete(JSON.stringify(body));
    changed("events", "runs", "home");
    return { title: said.emitted(body.topic), text: said.emittedTo(answer.reached) };
  },
};

/** Send a signal to a run that is typed. Its target is the name of the signal, and a run that waits for it. */
export const sendSignal: Act<{ name: string; run: string }> = {
  name: "send_signal",
  label: said.send,
  title: said.sendTitle,
  permission: "steer",
  fields: (one) => [
    { name: "run", label: said.sendTo, kind: "text", initial: one.run, isRequired: true, help: said.sendToHelp },
    { name: "name", label: words.runActs.signalName, kind: "text", initial: one.name, isRequired: true },
    { name: "payload", label: said.payload, kind: "json", initial: "null", help: words.runActs.jsonHelp },
    {
      name: "missing",
      label: said.ifMissing,
      kind: "choice",
      initial: "raise",
      options: [
        { value: "raise", label: said.missing.raise },
        { value: "hold", label: said.missing.hold },
      ],
    },
  ],
  command: (_, values) =>
    withInput(
      command(
        "signal",
        values["missing"] === "hold" && "--if-missing hold",
        target(text(values, "run") || "RUN", text(values, "name") || "NAME"),
      ),
      text(values, "payload") || "null",
    ),
  send: async (_, values) => {
    const [run, name] = [text(values, "run"), text(values, "name")];
    if (!run) throw new Problem({ status: 422, title: said.sendToHelp });
    const body = {
      name,
      payload: readJson(values, "payload", said.payload),
      if_missing: values["missing"] === "hold" ? "hold" : "raise",
    };
    const key = keyOf([run, body]);
    const answer = await send("post", "/api/runs/{run}/signals", {
      parts: { run },
      body: body as never,
      headers: { "idempotency-key": key },
    });
    keys.delete(JSON.stringify([run, body]));
    changed("events", "runs", "home");
    const link = answer.delivery === "delivered" ? { link: { href: toRun(run), text: words.show } } : {};
    return { title: `${run} ${words.runActs.signalled(name)}`, text: words.runActs.deliveries[answer.delivery], ...link };
  },
};

const redeliverTo: Field = { name: "to", label: said.to, kind: "text", initial: "", help: said.toHelp };

/** Deliver a signal again that no run has read. */
export const redeliver: Act<Signal> = {
  name: "redeliver",
  label: said.redeliver,
  title: said.redeliverTitle,
  about: said.redeliverAbout,
  permission: "steer",
  fields: () => [redeliverTo],
  command: (one, values) =>
    command("signals redeliver", String(one.number), text(values, "to") !== "" && [`--to=${text(values, "to")}`]),
  send: async (one, values) => {
    const to = text(values, "to");
    const answer = await send("post", "/api/signals/{number}/redeliver", {
      parts: { number: String(one.number) },
      body: (to ? { to } : {}) as never,
    });
    if (answer.delivery === "missing") throw new Problem({ status: 409, title: said.notDelivered, fix: said.notDeliveredFix });
    changed("events", "runs", "home");
    return {
      title: said.redelivered(one.name),
      text: answer.delivery === "duplicate" ? said.duplicate : "",
      link: { href: toRun(to || one.target), text: words.show },
    };
  },
};
