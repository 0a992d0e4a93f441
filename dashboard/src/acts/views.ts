// Saving a list of runs under a name, and deleting it again.

import type { Act, Values } from "../acts";
import { Problem, type Schemas, send } from "../api";
import { changed } from "../live";
import { sortOf, sortedBy } from "../runs/query";
import { command, word } from "../shell";
import { words } from "../words";

export type View = Schemas["SavedViewBody"];

/** What is shown now. */
export interface Shown {
  q: string;
  /** Empty: those that a list shows by default. */
  columns: string[];
  name: string;
}

const said = words.views;

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

export const saveView: Act<Shown> = {
  name: "save_view",
  label: said.save,
  title: said.saveTitle,
  about: said.saveAbout,
  permission: "steer",
  fields: (one) => [
    { name: "name", label: said.name, kind: "text", initial: one.name, isRequired: true },
    { name: "shared", label: said.shared, kind: "check", initial: false, help: said.sharedHelp },
  ],
  command: (one, values) => {
    const sort = sortOf(one.q);
    return command(
      "view save",
      word(text(values, "name") || "NAME"),
      [sortedBy(one.q, "")],
      sort !== "" && [`--sort=${sort}`],
      one.columns.length > 0 && [`--columns=${one.columns.join(",")}`],
      values["shared"] === true && "--shared",
    );
  },
  send: async (one, values) => {
    const name = text(values, "name");
    if (!name) throw new Problem({ status: 422, title: said.noName, fix: said.noNameFix });
    const body = { filter: sortedBy(one.q, ""), sort: sortOf(one.q), columns: one.columns, shared: values["shared"] === true };
    const saved = await send("put", "/api/views/{view}", { parts: { view: name }, body });
    changed("views");
    return { title: said.saved(saved.name) };
  },
};

export const deleteView: Act<View> = {
  name: "delete_view",
  label: said.delete,
  title: said.deleteTitle,
  permission: "steer",
  isDangerous: true,
  fields: () => [],
  command: (view) => command("view delete", [view.name], view.owner === null && "--shared"),
  send: async (view) => {
    const query: Record<string, string> = view.owner === null ? { shared: "true" } : {};
    await send("delete", "/api/views/{view}", { parts: { view: view.name }, query });
    changed("views");
    return { title: said.deleted(view.name) };
  },
};
