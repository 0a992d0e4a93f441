// What can be done about retention by hand: erasing the runs of a filter.

import { type Act, type Outlook, type Values } from "../acts";
import { send } from "../api";
import { count } from "../formats";
import { changed } from "../live";
import { command } from "../shell";
import { words } from "../words";

const said = words.retention.erase;
const LISTED_MAX = 12;

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function ask(values: Values, isDryRun: boolean) {
  const body = { where: text(values, "where"), reason: text(values, "reason"), dry_run: isDryRun };
  return send("post", "/api/retention/erase", { body });
}

/** Erase runs for ever. Only who may read the audit may do it. */
export const erase: Act<null> = {
  name: "erase_runs",
  label: said.label,
  title: said.title,
  about: said.about,
  permission: "audit",
  isDangerous: true,
  fields: () => [
    { name: "where", label: said.where, kind: "text", isRequired: true, help: said.whereHelp },
    { name: "reason", label: words.runActs.reason, kind: "area", help: said.reasonHelp },
  ],
  planWords: { title: words.plan.title, before: said.before, dry: said.dry },
  plan: async (_, values): Promise<Outlook> => {
    const found = await ask(values, true);
    return {
      groups: [
        { title: said.would(count(found.runs, "run"), found.matched), lines: [], none: said.withTrees },
        {
          title: said.left(found.left.length),
          lines: found.left.slice(0, LISTED_MAX).map((run) => ({ icon: "s-skipped", text: run })),
          more: found.left.length - LISTED_MAX,
          none: said.noneLeft,
        },
      ],
    };
  },
  command: (_, values) => command("erase", [`--where=${text(values, "where") || "FILTER"}`], text(values, "reason") !== "" && ["--reason", text(values, "reason")]),
  send: async (_, values) => {
    const found = await ask(values, false);
    changed("retention", "runs", "home", "workflow", "errors");
    return { title: said.erased(count(found.runs, "run")), ...(found.left.length > 0 ? { text: said.left(found.left.length) } : {}) };
  },
};
