// Acts: what a person can do to something. Each is written once; buttons, dialogs, the palette and keys show the same.

import { signal } from "@preact/signals";
import { type Permission, Problem, type Repair } from "./api";
import type { Schema } from "./forms";
import type { IconName } from "./parts/sprite";
import { may } from "./session";
import { toast, toastProblem } from "./parts/toasts";
import { words } from "./words";

export type Values = Record<string, string | boolean>;

export interface Field {
  name: string;
  label: string;
  help?: string;
  /** `json` is a value as JSON; `choice` and `select` are one of `options`; `check` is yes or no; `moment` is a time. */
  kind: "text" | "json" | "choice" | "select" | "check" | "area" | "moment";
  /** Of a value as JSON: its JSON Schema. A form is made from it. */
  schema?: Schema | null;
  options?: { value: string; label: string; help?: string }[];
  initial?: string | boolean;
  isRequired?: boolean;
  /** It needs half of the width, and stands beside another such field. */
  isHalf?: boolean;
}

/** What an act would do, in groups of lines. */
export interface Outlook {
  warnings?: string[];
  groups: { title: string; lines: OutlookLine[]; more?: number; none?: string }[];
}

export interface OutlookLine {
  icon: IconName;
  text: string;
  note?: string;
}

export interface Outcome {
  title: string;
  text?: string;
  link?: { href: string; text: string };
}

export interface Act<T> {
  name: string;
  /** On the button. An ellipsis means that it asks first. */
  label: string;
  /** The head of its dialog, and one sentence below it. */
  title?: string;
  about?: string;
  permission: Permission;
  isDangerous?: boolean;
  /** On the button of its dialog, if that says more than the label. */
  confirm?: string;
  /** Without fields, it is done at once. Fields may depend on the values of others. */
  fields?: (target: T, values: Values) => Field[];
  /** The command that does the same. */
  /** The target with what the fields need of the server. Without an answer they are shown as they are. */
  prepare?: (target: T) => Promise<unknown>;
  command: (target: T, values: Values) => string;
  send: (target: T, values: Values) => Promise<Outcome>;
  /** What it would do, without doing it. */
  plan?: (target: T, values: Values) => Promise<Repair | Outlook>;
  /** The plan is made as one types, without being asked for. */
  isPlanLive?: boolean;
  /** What the plan is called, and what stands there before it is made. */
  planWords?: { title: string; before: string; dry: string };
}

/** An act with what it is done to. */
export interface Offer<T = unknown> {
  act: Act<T>;
  target: T;
  /** Values that a page knows already, such as the path of the selected step. */
  given?: Values;
}

export function offer<T>(act: Act<T>, target: T, given: Values = {}): Offer<unknown> {
  return { act, target, given } as Offer<unknown>;
}

/** The act that is being asked about, if any. */
export const asking = signal<Offer<unknown> | undefined>(undefined);
/** The act that is under way: a button stays as it is until the server has answered. */
export const underWay = signal<string>("");

/** What the present page offers to do, for the palette and the key of acts. */
export const pageOffers = signal<Offer<unknown>[]>([]);

export function mayDo(one: Offer<unknown>): boolean {
  return may(one.act.permission);
}

/** The values that the fields of an act begin with. */
export function initialValues(one: Offer<unknown>, values: Values = {}): Values {
  const fields = one.act.fields?.(one.target, { ...one.given, ...values }) ?? [];
  const own = fields.map((field) => [field.name, field.initial ?? (field.kind === "check" ? false : "")] as const);
  return { ...Object.fromEntries(own), ...one.given };
}

/** The values after one was changed. Others that nobody has touched follow, if they begin with something else now. */
export function changedValues(one: Offer<unknown>, before: Values, name: string, value: string | boolean): Values {
  const [was, now] = [initialValues(one, before), initialValues(one, { ...before, [name]: value })];
  const followed = Object.entries(now).filter(([other]) => !(other in before) || before[other] === was[other]);
  return { ...before, ...Object.fromEntries(followed), [name]: value };
}

export function commandOf(one: Offer<unknown>): string {
  return one.act.command(one.target, initialValues(one));
}

/** Do it, or ask first if it has fields. */
export async function begin(one: Offer<unknown>): Promise<void> {
  if (one.act.fields) {
    asking.value = await prepared(one);
    return;
  }
  try {
    await perform(one, initialValues(one));
  } catch (error) {
    toastProblem(words.acts.notDone(plainLabel(one.act)), error);
  }
}

/** The act with what its fields need to know. */
export async function prepared(one: Offer<unknown>): Promise<Offer<unknown>> {
  if (!one.act.prepare) return one;
  underWay.value = one.act.name;
  try {
    return { ...one, target: await one.act.prepare(one.target) };
  } catch {
    return one;
  } finally {
    underWay.value = "";
  }
}

/** Do it, and say so. Raises `Problem`; then nothing was done, or it is not known. */
export async function perform(one: Offer<unknown>, values: Values): Promise<void> {
  underWay.value = one.act.name;
  try {
    toast(await one.act.send(one.target, values));
  } finally {
    underWay.value = "";
  }
}

/** The label without the ellipsis. */
export function plainLabel(act: { label: string }): string {
  return act.label.replace(/…$/, "");
}

/** A field with JSON. Raises `Problem` if it is none, before anything is sent. */
export function readJson(values: Values, name: string, label: string): unknown {
  const text = String(values[name] ?? "").trim();
  if (text === "") throw new Problem({ status: 422, title: words.acts.notFilled(label), fix: words.acts.filledFix });
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Problem({
      status: 422,
      title: words.acts.notJson(label),
      why: error instanceof Error ? error.message : "",
      fix: words.acts.jsonFix,
    });
  }
}
