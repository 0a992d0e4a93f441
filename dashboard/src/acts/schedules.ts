// What can be done to a schedule, and how a new one is made.

import { type Act, type Field, type Offer, offer, type Outlook, type OutlookLine, readJson, type Values } from "../acts";
import { read, type Schemas, send } from "../api";
import { count, isoOf, momentText } from "../formats";
import { now } from "../clock";
import { changed } from "../live";
import { isHidden } from "../parts/json";
import { to, toRun } from "../place";
import { exampleOf } from "../schemas";
import { command, target, withInput } from "../shell";
import { words } from "../words";
import type { Workflow } from "./others";

export type Schedule = Schemas["ScheduleBody"];
type Tick = Schemas["TickBody"];

const said = words.scheduleActs;
const TICKS = 6;
const LISTED_MAX = 12;
const OVERLAPS = ["skip", "allow", "cancel_running", "buffer_one"] as const;
const CATCH_UPS = ["latest", "all", "none"] as const;

function text(values: Values, name: string): string {
  return String(values[name] ?? "").trim();
}

function done(schedule: string, title: string, more: { text?: string; run?: string | null } = {}) {
  changed("schedule", "runs", "doctor", "home");
  const link = more.run ? { href: toRun(more.run), text: words.show } : { href: toSchedule(schedule), text: words.show };
  return { title, link, ...(more.text ? { text: more.text } : {}) };
}

/** The address of one schedule. */
export function toSchedule(name: string): string {
  return to(`schedules/${encodeURIComponent(name)}`);
}

// --- when ---

type Kind = "cron" | "every" | "at";

/** The times that the fields of a form say, as the API takes them. */
export function timesOf(values: Values): Record<string, string> {
  const hasOffset = /(Z|[+-]\d\d:?\d\d)$/i.test(text(values, "at"));
  const filled = Object.entries({
    cron: { cron: text(values, "cron"), timezone: text(values, "timezone") },
    every: { every: text(values, "every"), offset: text(values, "offset") },
    at: { at: text(values, "at"), timezone: hasOffset ? "" : text(values, "timezone") },
  }[(values["kind"] as Kind) ?? "cron"]);
  return Object.fromEntries(filled.filter(([, value]) => value !== ""));
}

function timeWords(values: Values): string[] {
  const flags: Record<string, string> = { cron: "--cron", timezone: "--tz", every: "--every", offset: "--offset", at: "--at" };
  return Object.entries(timesOf(values)).flatMap(([name, value]) => [flags[name] ?? "", value]);
}

function timeFields(kind: Kind, given: Partial<Record<string, string>>): Field[] {
  const zone: Field = {
    name: "timezone",
    label: said.timezone,
    kind: "text",
    initial: given["timezone"] ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    help: said.timezoneHelp,
    isHalf: true,
  };
  const one = (name: string, label: string, help: string, initial: string, isRequired = true): Field => ({
    name,
    label,
    kind: "text",
    initial: given[name] ?? initial,
    help,
    isRequired,
    isHalf: true,
  });
  switch (kind) {
    case "cron":
      return [one("cron", said.cron, said.cronHelp, "0 6 * * 1-5"), zone];
    case "every":
      return [one("every", said.every, said.everyHelp, "1h"), one("offset", said.offset, said.offsetHelp, "", false)];
    case "at":
      return [one("at", said.at, said.atHelp, momentText(now() + 86_400_000)), zone];
  }
}

function kindField(initial: Kind): Field {
  return {
    name: "kind",
    label: said.when,
    kind: "select",
    initial,
    options: [
      { value: "cron", label: said.kinds.cron },
      { value: "every", label: said.kinds.every },
      { value: "at", label: said.kinds.at },
    ],
  };
}

function ruleFields(given: { overlap: string; catch_up: string; window: string; jitter: string }): Field[] {
  return [
    {
      name: "overlap",
      label: said.overlap,
      kind: "select",
      initial: given.overlap,
      options: OVERLAPS.map((value) => ({ value, label: words.schedules.overlaps[value] })),
      isHalf: true,
    },
    {
      name: "catch_up",
      label: said.catchUp,
      kind: "select",
      initial: given.catch_up,
      options: CATCH_UPS.map((value) => ({ value, label: words.schedules.catchUps[value] })),
      isHalf: true,
    },
    { name: "window", label: said.window, kind: "text", initial: given.window, help: said.windowHelp, isHalf: true },
    { name: "jitter", label: said.jitter, kind: "text", initial: given.jitter, help: said.jitterHelp, isHalf: true },
  ];
}

/** A tick by the clocks of its zone: the year only if it is another one. */
export function localTick(local: string): string {
  const [day = "", clock = ""] = local.split("T");
  const date = new Date(`${day}T00:00:00Z`);
  const weekday = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][date.getUTCDay()] ?? "";
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][date.getUTCMonth()] ?? "";
  const time = clock.slice(0, clock.slice(6, 8) === "00" ? 5 : 8);
  const year = date.getUTCFullYear() === new Date(now()).getUTCFullYear() ? "" : ` ${date.getUTCFullYear()}`;
  return `${weekday} ${date.getUTCDate()} ${month}${year} ${time}`;
}

function tickLine(tick: Tick): OutlookLine {
  const utc = `${tick.fire_time.slice(11, 16)} UTC`;
  return { icon: "schedules", text: localTick(tick.local_time), note: tick.note ? `${utc} · ${tick.note}` : utc };
}

async function nextTicks(values: Values): Promise<Outlook> {
  const found = await read("/api/schedule-times", { query: { ...timesOf(values), count: TICKS } as never });
  return { groups: [{ title: found.when, lines: found.ticks.map(tickLine), none: said.never }] };
}

const PLAN = { title: said.nextTicks, before: said.nextTicksBefore, dry: said.nextTicksDry };

// --- making and changing ---

/** Make a schedule for one of these workflows. */
export const create: Act<Workflow[]> = {
  name: "create_schedule",
  label: said.create,
  title: said.createTitle,
  confirm: said.createIt,
  permission: "steer",
  fields: (workflows, values) => {
    const one = workflows.find((each) => each.name === values["workflow"]) ?? workflows[0];
    const kind = (values["kind"] as Kind | undefined) ?? "cron";
    return [
      { name: "name", label: said.name, kind: "text", isRequired: true, help: said.nameHelp, isHalf: true },
      workflows.length > 0
        ? {
            name: "workflow",
            label: said.workflow,
            kind: "select",
            initial: workflows[0]?.name ?? "",
            options: workflows.map((each) => ({ value: each.name, label: each.name })),
            help: one?.summary ?? "",
            isHalf: true,
          }
        : { name: "workflow", label: said.workflow, kind: "text", isRequired: true, isHalf: true },
      kindField("cron"),
      ...timeFields(kind, {}),
      ...(one?.takes_input === false
        ? []
        : [{ name: "input", label: said.input, kind: "json" as const, initial: JSON.stringify(exampleOf(one?.input), null, 2), help: said.inputHelp }]),
      ...ruleFields({ overlap: "skip", catch_up: "latest", window: "", jitter: "0s" }),
      { name: "paused", label: said.startPaused, kind: "check" },
    ];
  },
  isPlanLive: true,
  planWords: PLAN,
  plan: (_, values) => nextTicks(values),
  command: (workflows, values) =>
    withInput(
      command(
        "schedule new",
        timeWords(values),
        text(values, "overlap") !== "skip" && ["--overlap", text(values, "overlap")],
        text(values, "catch_up") !== "latest" && ["--catch-up", text(values, "catch_up")],
        text(values, "window") !== "" && ["--window", text(values, "window")],
        !["", "0s"].includes(text(values, "jitter")) && ["--jitter", text(values, "jitter")],
        values["paused"] === true && "--paused",
        target(text(values, "name") || "NAME", text(values, "workflow") || (workflows[0]?.name ?? "WORKFLOW")),
      ),
      text(values, "input") || "null",
    ),
  send: async (workflows, values) => {
    const workflow = text(values, "workflow");
    const takesInput = workflows.find((one) => one.name === workflow)?.takes_input !== false;
    const body = {
      name: text(values, "name"),
      workflow,
      ...timesOf(values),
      input: takesInput ? readJson(values, "input", said.input) : null,
      overlap: text(values, "overlap"),
      catch_up: text(values, "catch_up"),
      window: text(values, "window") || null,
      jitter: text(values, "jitter") || "0s",
      paused: values["paused"] === true,
    };
    const made = await send("post", "/api/schedules", { body: body as never });
    return done(made.name, said.created(made.name), { text: made.when });
  },
};

/** How a length of time is typed. */
export function typedSpan(seconds: number | null): string {
  if (seconds === null) return "";
  for (const [unit, of] of [["d", 86_400], ["h", 3_600], ["m", 60]] as const) if (seconds >= of && seconds % of === 0) return `${seconds / of}${unit}`;
  return `${seconds}s`;
}

function kindOf(one: Schedule): Kind {
  return one.cron !== null ? "cron" : one.every_seconds !== null ? "every" : "at";
}

/** What the fields of a schedule begin with. */
function givenOf(one: Schedule): Partial<Record<string, string>> {
  return {
    ...(one.cron !== null ? { cron: one.cron } : {}),
    ...(one.timezone ? { timezone: one.timezone } : {}),
    ...(one.every_seconds !== null ? { every: typedSpan(one.every_seconds) } : {}),
    ...(one.offset_seconds ? { offset: typedSpan(one.offset_seconds) } : {}),
    ...(one.fires_at !== null ? { at: one.fires_at } : {}),
  };
}

function editFields(one: Schedule, values: Values): Field[] {
  const kind = (values["kind"] as Kind | undefined) ?? kindOf(one);
  return [
    kindField(kindOf(one)),
    ...timeFields(kind, givenOf(one)),
    ...(isHidden(one.input)
      ? []
      : [{ name: "input", label: said.input, kind: "json" as const, initial: JSON.stringify(one.input ?? null, null, 2), help: said.inputHelp }]),
    ...ruleFields({ overlap: one.overlap, catch_up: one.catch_up, window: typedSpan(one.window_seconds), jitter: typedSpan(one.jitter_seconds) }),
  ];
}

/** Only the parts that differ from the schedule as it is. */
export function changesOf(one: Schedule, values: Values): Record<string, unknown> {
  const before = Object.fromEntries(editFields(one, {}).map((field) => [field.name, field.initial ?? ""]));
  const differs = (name: string) => String(before[name] ?? "").trim() !== text(values, name);
  const times = ["kind", "cron", "timezone", "every", "offset", "at"];
  return {
    ...(times.some((name) => name in values && differs(name)) ? timesOf(values) : {}),
    ...("input" in before && differs("input") ? { input: readJson(values, "input", said.input) } : {}),
    ...(differs("overlap") ? { overlap: text(values, "overlap") } : {}),
    ...(differs("catch_up") ? { catch_up: text(values, "catch_up") } : {}),
    ...(differs("window") ? { window: text(values, "window") || null } : {}),
    ...(differs("jitter") ? { jitter: text(values, "jitter") || "0s" } : {}),
  };
}

const FLAGS: Record<string, string> = {
  cron: "--cron",
  timezone: "--tz",
  every: "--every",
  offset: "--offset",
  at: "--at",
  overlap: "--overlap",
  catch_up: "--catch-up",
  window: "--window",
  jitter: "--jitter",
};

const edit: Act<Schedule> = {
  name: "edit_schedule",
  label: said.edit,
  title: said.editTitle,
  about: said.editAbout,
  permission: "steer",
  fields: editFields,
  isPlanLive: true,
  planWords: PLAN,
  plan: (_, values) => nextTicks(values),
  command: (one, values) => {
    let changes: Record<string, unknown>;
    try {
      changes = changesOf(one, values);
    } catch {
      return command("schedule update", target(one.name), "JSON");
    }
    const flags = Object.entries(changes).flatMap(([name, value]) => (FLAGS[name] && value !== null ? [FLAGS[name], String(value)] : []));
    const line = command("schedule update", flags, target(one.name));
    return "input" in changes ? withInput(line, JSON.stringify(changes["input"])) : line;
  },
  send: async (one, values) => {
    const answer = await send("patch", "/api/schedules/{schedule}", { parts: { schedule: one.name }, body: changesOf(one, values) as never });
    return done(one.name, said.edited(one.name), answer.changed ? {} : { text: words.runActs.nothingChanged });
  },
};

// --- steering ---

const pause: Act<Schedule> = {
  name: "pause_schedule",
  label: said.pause,
  title: said.pauseTitle,
  about: said.pauseAbout,
  permission: "steer",
  fields: () => [{ name: "reason", label: words.runActs.reason, kind: "area", help: said.reasonHelp }],
  command: (one, values) => command("schedule pause", text(values, "reason") !== "" && ["--reason", text(values, "reason")], target(one.name)),
  send: async (one, values) => {
    await send("post", "/api/schedules/{schedule}/pause", { parts: { schedule: one.name }, body: { reason: text(values, "reason") } });
    return done(one.name, said.paused(one.name));
  },
};

const resume: Act<Schedule> = {
  name: "resume_schedule",
  label: said.resume,
  permission: "steer",
  command: (one) => command("schedule resume", target(one.name)),
  send: async (one) => {
    await send("post", "/api/schedules/{schedule}/resume", { parts: { schedule: one.name } });
    return done(one.name, said.resumed(one.name));
  },
};

const trigger: Act<Schedule> = {
  name: "trigger_schedule",
  label: said.trigger,
  title: said.triggerTitle,
  about: said.triggerAbout,
  permission: "steer",
  fields: (one) => [
    {
      name: "overlap",
      label: said.triggerOverlap,
      kind: "choice",
      initial: "",
      options: [
        { value: "", label: said.asTheScheduleSays(words.schedules.overlaps[one.overlap as (typeof OVERLAPS)[number]] ?? one.overlap) },
        ...(["allow", "cancel_running"] as const).map((value) => ({ value, label: words.schedules.overlaps[value] })),
      ],
    },
  ],
  command: (one, values) => command("schedule trigger", text(values, "overlap") !== "" && ["--overlap", text(values, "overlap")], target(one.name)),
  send: async (one, values) => {
    const body = { overlap: (text(values, "overlap") || null) as never };
    const found = await send("post", "/api/schedules/{schedule}/trigger", { parts: { schedule: one.name }, body });
    if (found.run_id === null) return done(one.name, said.notTriggered(one.name), { text: found.note, run: found.in_the_way });
    return done(one.name, said.triggered(one.name), { run: found.run_id });
  },
};

function range(values: Values): { since: string; until: string } {
  return { since: isoOf(text(values, "since")), until: isoOf(text(values, "until")) };
}

const backfill: Act<Schedule> = {
  name: "backfill_schedule",
  label: said.backfill,
  title: said.backfillTitle,
  about: said.backfillAbout,
  permission: "steer",
  fields: (one) => {
    const end = Math.floor(now() / 3_600_000) * 3_600_000;
    const length = one.every_seconds !== null && one.every_seconds < 86_400 ? 86_400_000 : 7 * 86_400_000;
    return [
      { name: "since", label: said.since, kind: "moment", initial: momentText(end - length), isRequired: true, isHalf: true },
      { name: "until", label: said.until, kind: "moment", initial: momentText(end), isRequired: true, help: said.untilHelp, isHalf: true },
      { name: "limit", label: said.limit, kind: "text", initial: "1000", help: said.limitHelp },
    ];
  },
  planWords: { title: words.plan.title, before: said.backfillBefore, dry: said.backfillDry },
  command: (one, values) => {
    const { since, until } = range(values);
    const limit = text(values, "limit");
    return command("schedule backfill", ["--from", since, "--to", until], limit !== "1000" && limit !== "" && ["--limit", limit], target(one.name));
  },
  plan: async (one, values) => {
    const found = await fill(one, values, true);
    const lines = found.ticks.map((tick): OutlookLine => ({
      icon: tick.is_new ? "s-pending" : "s-skipped",
      text: localTick(tick.local_time),
      note: tick.note || (tick.is_new ? said.wouldStart : ""),
    }));
    const title = said.wouldStartRuns(count(found.new, "run"), found.existing);
    return { groups: [{ title, lines: lines.slice(0, LISTED_MAX), more: lines.length - LISTED_MAX, none: said.noTick }] };
  },
  send: async (one, values) => {
    const found = await fill(one, values, false);
    return done(one.name, said.backfilled(count(found.new, "run")), found.existing > 0 ? { text: said.existing(count(found.existing, "tick")) } : {});
  },
};

function fill(one: Schedule, values: Values, isDryRun: boolean) {
  const limit = Number(text(values, "limit") || "1000");
  const body = { ...range(values), limit, dry_run: isDryRun };
  return send("post", "/api/schedules/{schedule}/backfill", { parts: { schedule: one.name }, body: body as never });
}

export const useCode: Act<Schedule> = {
  name: "use_code_of_schedule",
  label: said.useCode,
  permission: "steer",
  command: (one) => command("schedule use-code", target(one.name)),
  send: async (one) => {
    await send("post", "/api/schedules/{schedule}/use-code", { parts: { schedule: one.name } });
    return done(one.name, said.usesCode(one.name));
  },
};

const remove: Act<Schedule> = {
  name: "delete_schedule",
  label: said.remove,
  title: said.removeTitle,
  about: said.removeAbout,
  permission: "steer",
  isDangerous: true,
  fields: () => [],
  command: (one) => command("schedule rm", target(one.name)),
  send: async (one) => {
    await send("delete", "/api/schedules/{schedule}", { parts: { schedule: one.name } });
    changed("schedule", "doctor");
    return { title: said.removed(one.name) };
  },
};

export const scheduleActs = { create, edit, pause, resume, trigger, backfill, useCode, remove };

/** What can be done to a schedule in its state, the most useful first. One of the code cannot be deleted: a deploy brings it back. */
export function offersOf(one: Schedule): Offer[] {
  if (one.unreadable) return one.is_in_code ? [] : [offer(remove, one)];
  const isPaused = one.state === "paused";
  const acts = isPaused ? [resume, trigger, backfill, edit] : one.state === "ended" ? [edit, trigger] : [trigger, backfill, edit, pause];
  return [...acts, ...(one.is_in_code ? [] : [remove])].map((act) => offer(act, one));
}
