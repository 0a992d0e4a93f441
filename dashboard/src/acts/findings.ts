// What can be done about a finding: the advice of the server, as an act.

import { type Act, type Offer, offer } from "../acts";
import { type Schemas, send } from "../api";
import { changed } from "../live";
import { words } from "../words";

export type Advice = Schemas["AdviceBody"];
export type Finding = Schemas["FindingBody"];

const said = words.doctor;

type Send = (target: string) => Promise<unknown>;

/** How each verb is sent. Verbs that ask for more, or that only show something, are not here. */
const SENT: Record<string, Send> = {
  retry: (run) => send("post", "/api/runs/{run}/retry", { parts: { run } }),
  resume: (run) => send("post", "/api/runs/{run}/resume", { parts: { run } }),
  "rollback resume": (run) => send("post", "/api/runs/{run}/resume-rollback", { parts: { run } }),
  "workflow resume": (workflow) => send("post", "/api/workflows/{workflow}/resume", { parts: { workflow } }),
  "resume all": () => send("post", "/api/holds/resume"),
  "outbox replay": (event) => send("post", "/api/outbox/{event}/replay", { parts: { event } }),
  "trigger resume": (trigger) => send("post", "/api/triggers/{trigger}/resume", { parts: { trigger } }),
};

/** Advice that is a button. */
export function actOf(advice: Advice): Offer | undefined {
  const label = said.verbs[advice.verb];
  const sent = SENT[advice.verb];
  if (label === undefined || sent === undefined) return undefined;
  const act: Act<Advice> = {
    name: `${advice.verb} ${advice.target}`,
    label: advice.target && advice.verb !== "outbox replay" ? `${label} ${shortened(advice.target)}` : label,
    permission: "steer",
    command: (one) => one.command,
    send: async (one) => {
      await sent(one.target);
      changed("doctor", "home", "runs", "workflow");
      return { title: said.did(label, one.target) };
    },
  };
  return offer(act, advice);
}

const SHOWN_MAX = 28;

function shortened(text: string): string {
  const characters = [...text];
  return characters.length <= SHOWN_MAX ? text : `${characters.slice(0, SHOWN_MAX - 7).join("")}…${characters.slice(-6).join("")}`;
}

/** Release the runs of workers that are gone. Any worker would do it too. */
export const recover: Act<null> = {
  name: "recover",
  label: said.recover,
  permission: "steer",
  command: () => FIX,
  send: async () => {
    const found = await send("post", "/api/workers/recover");
    changed("doctor", "home", "runs", "workers");
    return { title: said.recovered(found.freed), text: said.recoveredText(found.paused) };
  },
};

/** Does about every finding what is safe. */
export const FIX = "stepwell doctor --fix";
