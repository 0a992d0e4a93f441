// Numbers, times and sizes as people read them.

import { zone } from "./settings";

const THIN = "\u202f";
const numbers = new Intl.NumberFormat("en", { useGrouping: true, maximumFractionDigits: 0 });

/** A number with a thin space between its groups. */
export function number(value: number): string {
  return numbers.format(value).replace(/,/g, THIN);
}

/** A duration, with two parts at most: `0.41 s`, `1 min 02 s`, `2 d 03 h`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  const hours = Math.floor(minutes / 60);
  return `${number(Math.floor(hours / 24))} d ${two(hours % 24)} h`;
}

/** A duration for a sentence, with one part: `4 min`, `2 d`. */
export function roughly(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86_400 * 2) return `${Math.round(seconds / 3_600)} h`;
  return `${number(Math.round(seconds / 86_400))} d`;
}

/** How far a time is from now: `in 4 min`, `12 s ago`. */
export function distance(at: number, from: number): string {
  if (Math.abs(at - from) < 1_000) return "now";
  return at > from ? `in ${roughly(at - from)}` : `${roughly(from - at)} ago`;
}

interface Parts {
  day: string;
  month: string;
  year: string;
  time: string;
  fraction: string;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function partsOf(ms: number): Parts {
  const date = new Date(ms);
  const isUtc = zone.value === "utc";
  const [hour, minute, second] = isUtc
    ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getHours(), date.getMinutes(), date.getSeconds()];
  return {
    day: String(isUtc ? date.getUTCDate() : date.getDate()),
    month: MONTHS[isUtc ? date.getUTCMonth() : date.getMonth()] ?? "",
    year: String(isUtc ? date.getUTCFullYear() : date.getFullYear()),
    time: `${two(hour)}:${two(minute)}:${two(second)}`,
    fraction: String(date.getUTCMilliseconds()).padStart(3, "0"),
  };
}

/** A time for a table: the time of day today, the day and the time this year, the day and the year before. */
export function shortTime(ms: number, from: number): string {
  const at = partsOf(ms);
  const today = partsOf(from);
  if (at.year !== today.year) return `${at.day} ${at.month} ${at.year}`;
  return at.day === today.day && at.month === today.month ? at.time : `${at.day} ${at.month} ${at.time.slice(0, 5)}`;
}

/** A whole time with its zone. */
export function fullTime(ms: number, { exact = false } = {}): string {
  const at = partsOf(ms);
  return `${at.day} ${at.month} ${at.year} ${at.time}${exact ? `.${at.fraction}` : ""} ${zoneName()}`;
}

/** The name of the zone in which times are shown. */
export function zoneName(): string {
  if (zone.value === "utc") return "UTC";
  return (
    new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName")
      ?.value ?? "local"
  );
}

/** The size of a value, as JSON. */
export function size(value: unknown): string {
  return bytes(new TextEncoder().encode(JSON.stringify(value) ?? "").length);
}

/** `1 run`, `2 runs`. */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : many}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** A time as a field of date and time holds it, in the zone in which times are shown. */
export function momentText(ms: number): string {
  const at = partsOf(ms);
  const month = String(MONTHS.indexOf(at.month) + 1).padStart(2, "0");
  return `${at.year}-${month}-${at.day.padStart(2, "0")}T${at.time.slice(0, 5)}`;
}

/** The time that such a field holds; not a number if it holds none. */
export function momentOf(text: string): number {
  return Date.parse(zone.value === "utc" ? `${text}Z` : text);
}

/** The same time for a command line; TIME, if the field holds none. */
export function isoOf(text: string): string {
  const ms = momentOf(text);
  return Number.isNaN(ms) ? "TIME" : new Date(ms).toISOString().replace(".000Z", "Z");
}

/** A number of bytes. */
export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  for (const [unit, of] of [["kB", 1e3], ["MB", 1e6], ["GB", 1e9]] as const)
    if (count < of * 1_000) return `${(count / of).toFixed(1)} ${unit}`;
  return `${number(Math.round(count / 1e9))} GB`;
}

/** A length of time as people set it: `30 d`, `1 h`, `90 s`. */
export function span(seconds: number): string {
  for (const [unit, of] of [["d", 86_400], ["h", 3_600], ["min", 60]] as const)
    if (seconds >= of && seconds % of === 0) return `${number(seconds / of)} ${unit}`;
  return `${seconds} s`;
}
