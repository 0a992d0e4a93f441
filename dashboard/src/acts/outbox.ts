// What can be done about events that sinks have not received.

import type { Act } from "../acts";
import { type Schemas, send } from "../api";
import { changed } from "../live";
import { command, target } from "../shell";
import { words } from "../words";

export type Owed = Schemas["OwedBody"];

const said = words.outbox;

/** Send a dead letter again, with fresh tries. */
export const replayEvent: Act<Owed> = {
  name: "replay_event",
  label: said.replay,
  permission: "steer",
  command: (one) => command("outbox replay", [`--sink=${one.sink}`], target(one.event_id)),
  send: async (one) => {
    const answer = await send("post", "/api/outbox/{event}/replay", { parts: { event: one.event_id }, body: { sink: one.sink } });
    changed("outbox", "home", "doctor");
    return { title: said.replayed, text: said.replayedFor(answer.sinks) };
  },
};

/** Drop an event that its sink has not received. */
export const dropEvent: Act<Owed> = {
  name: "drop_event",
  label: said.drop,
  title: said.dropTitle,
  about: said.dropAbout,
  permission: "steer",
  isDangerous: true,
  fields: () => [],
  command: (one) => command("outbox drop", [`--sink=${one.sink}`], target(one.event_id)),
  send: async (one) => {
    const answer = await send("post", "/api/outbox/{event}/drop", { parts: { event: one.event_id }, body: { sink: one.sink } });
    changed("outbox", "home", "doctor");
    return { title: said.dropped, text: said.droppedFor(answer.sinks) };
  },
};
