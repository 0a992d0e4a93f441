// A filter as text, changed by the controls around a list. The server decides what it means.

import { termsOf } from "../parts/filter";

const fieldOf = (text: string) => termsOf(text)[0]?.field.toLowerCase() ?? "";

/** The filter without the terms of these fields, each with its colon. */
export function without(q: string, ...fields: string[]): string {
  return termsOf(q)
    .map((term) => term.text)
    .filter((text) => !fields.includes(fieldOf(text)))
    .join(" ");
}

/** The filter with one more term. */
export function withTerm(q: string, text: string): string {
  return [q, text].filter(Boolean).join(" ");
}

/** The order of a filter, such as `-took`; empty if it names none. */
export function sortOf(q: string): string {
  return termsOf(q).findLast((term) => term.field.toLowerCase() === "sort:")?.value ?? "";
}

/** The filter in this order; an empty order is that of the server: the newest first. */
export function sortedBy(q: string, sort: string): string {
  const rest = without(q, "sort:");
  return sort ? withTerm(rest, `sort:${sort}`) : rest;
}

/** The order after the head of a column was chosen: the greatest first, then the least, then that of the server. */
export function nextSort(sort: string, field: string): string {
  if (sort === `-${field}`) return field;
  return sort === field ? "" : `-${field}`;
}

/** The filter with this range of creation, and no other. */
export function within(q: string, since: Date, until: Date): string {
  return withTerm(without(q, "since:", "until:"), `since:${moment(since)} until:${moment(until)}`);
}

/** Whether the filter itself names a range of creation. */
export function hasRange(q: string): boolean {
  return termsOf(q).some((term) => ["since:", "until:"].includes(term.field.toLowerCase()));
}

/** A time as the filter language writes it: in UTC, to the second. */
function moment(at: Date): string {
  return at.toISOString().slice(0, 19);
}

