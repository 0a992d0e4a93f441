// One schedule: when it starts runs, what became of its ticks, and a preview of any time.

import "./schedules.css";
import { useLocation } from "preact-iso";
import { useEffect, useState } from "preact/hooks";
import { pageOffers } from "../acts";
import { localTick, offersOf, type Schedule, toSchedule } from "../acts/schedules";
import { Problem, read } from "../api";
import { now } from "../clock";
import { isoOf, momentOf, momentText } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { Command } from "../parts/copy";
import { FormField } from "../parts/field";
import { Icon } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { ScheduleDetail, ScheduleState, useSchedule } from "../parts/schedule";
import { None, Skeleton } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { filterWord, to, toRun } from "../place";
import { command, target } from "../shell";
import { words } from "../words";

const said = words.schedules;
const DAY_MS = 86_400_000;

export default function OneSchedule(props: { params: Record<string, string>; query: Record<string, string> }) {
  const name = props.params["schedule"] ?? "";
  const reading = useSchedule(name);
  const found = reading.data.value;
  const schedule = found?.schedule;
  useHead(name, [{ text: words.nav.schedules, href: to("schedules") }, { text: name, isCode: true }]);
  useEffect(() => {
    pageOffers.value = schedule ? offersOf(schedule) : [];
  }, [schedule?.name, schedule?.state]);
  return (
    <>
      <div class="head sched-head">
        <h1 class="mono">
          <bdi>{name}</bdi>
        </h1>
        {schedule && <ScheduleState schedule={schedule} isBadge />}
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={8} label={words.reading} />}
      {schedule && (
        <>
          <dl class="meta">
            <div>
              <dt>{said.runs}</dt>
              <dd>
                <a href={to(`workflows/${encodeURIComponent(schedule.workflow)}`)}>
                  <bdi>{schedule.workflow}</bdi>
                </a>
              </dd>
            </div>
            <div>
              <dt>{said.when}</dt>
              <dd>{schedule.when || said.never}</dd>
            </div>
            {schedule.next_at && !schedule.problem && (
              <div>
                <dt>{said.nextFive.replace(/ .*/, "")}</dt>
                <dd>
                  <FullTime at={schedule.next_at} />
                </dd>
              </div>
            )}
            <div>
              <dt>{said.run}</dt>
              <dd>
                <a href={to("runs", { q: `attr.stepwell.schedule:${filterWord(schedule.name)}` })}>{said.runsOf}</a>
              </dd>
            </div>
          </dl>
          <div class="section">
            <ScheduleDetail schedule={schedule} isWhole />
          </div>
          {!schedule.unreadable && <Preview schedule={schedule} query={props.query} />}
          <section class="section">
            <h2>{said.history}</h2>
            <Acts acts={found.acts} />
          </section>
        </>
      )}
    </>
  );
}

interface Range {
  from: string;
  to: string;
}

/** From a week before to a week after now; a day, if it is due more often than daily. */
function usualRange(schedule: Schedule): Range {
  const length = schedule.every_seconds !== null && schedule.every_seconds < DAY_MS / 1_000 ? DAY_MS / 4 : 7 * DAY_MS;
  const middle = Math.floor(now() / 3_600_000) * 3_600_000;
  return { from: momentText(middle - length), to: momentText(middle + length) };
}

function Preview(props: { schedule: Schedule; query: Record<string, string> }) {
  const { schedule, query } = props;
  const { route } = useLocation();
  const [usual] = useState(() => usualRange(schedule));
  const shown: Range = { from: query["from"] ?? usual.from, to: query["to"] ?? usual.to };
  const [typed, setTyped] = useState(shown);
  const moment = (text: string) => {
    const ms = momentOf(text);
    if (Number.isNaN(ms)) throw new Problem({ status: 422, title: `${text} is not a time` });
    return new Date(ms).toISOString();
  };
  const reading = useReading(
    `schedule-preview ${schedule.name} ${shown.from} ${shown.to}`,
    (signal) => read("/api/schedules/{schedule}/preview", { parts: { schedule: schedule.name }, query: { since: moment(shown.from), until: moment(shown.to) } as never, signal }),
    15_000,
  );
  const ticks = reading.data.value?.ticks;
  const field = (name: keyof Range, label: string) => (
    <FormField
      id={`preview-${name}`}
      field={{ name, label, kind: "moment", isRequired: true }}
      values={{ ...typed }}
      onChange={(_, value) => setTyped((before) => ({ ...before, [name]: String(value) }))}
    />
  );
  return (
    <section class="section" aria-label={said.preview}>
      <h2>{said.preview}</h2>
      <p class="dim">{said.previewText}</p>
      <form
        class="preview-form"
        onSubmit={(event) => {
          event.preventDefault();
          route(`${toSchedule(schedule.name)}?${new URLSearchParams({ ...typed })}`, true);
        }}
      >
        {field("from", said.from)}
        {field("to", said.to)}
        <button type="submit" class="btn">
          {said.preview}
        </button>
      </form>
      {reading.problem.value && <ProblemBox problem={reading.problem.value} />}
      {!ticks && !reading.problem.value && <Skeleton rows={4} label={words.reading} />}
      {ticks?.length === 0 && <None>{said.noTick}</None>}
      {ticks && ticks.length > 0 && (
        <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.preview}>
          <table class="table ticks">
            <colgroup>
              <col class="t-1" />
              <col class="t-2" />
              <col />
              <col class="t-4" />
            </colgroup>
            <thead>
              <tr>
                <th>{said.tick}</th>
                <th>{said.fate}</th>
                <th>{said.why}</th>
                <th>{said.run}</th>
              </tr>
            </thead>
            <tbody>
              {ticks.map((tick) => (
                <tr key={tick.fire_time}>
                  <td>
                    {localTick(tick.local_time)} <span class="dim">{said.utc(tick.fire_time.slice(11, 16))}</span>
                  </td>
                  <td>
                    <FateMark fate={tick.fate} status={tick.run_status} />
                  </td>
                  <td class="two" title={tick.reason}>
                    <bdi>{tick.reason}</bdi>
                  </td>
                  <td>
                    {tick.run_id && tick.run_status && (
                      <a class="mono small" href={toRun(tick.run_id)}>
                        <bdi>{tick.run_id}</bdi>
                      </a>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div class="foot">
        <Command text={command("schedule preview", ["--from", isoOf(shown.from), "--to", isoOf(shown.to)], target(schedule.name))} />
      </div>
    </section>
  );
}

function FateMark(props: { fate: string; status: string | null }) {
  const { fate, status } = props;
  const isBad = fate === "failed" || status === "failed" || status === "compensation_failed";
  const icon = isBad ? "s-failed" : fate === "started" || fate === "triggered" ? "s-completed" : fate === "will start" ? "s-pending" : fate === "held" ? "s-waiting" : "s-skipped";
  return (
    <span class={`st ${isBad ? "st-failed" : icon === "s-completed" ? "st-completed" : "st-pending"}`}>
      <Icon name={icon} />
      {said.kinds[fate] ?? fate}
    </span>
  );
}

/** Details of an act in words. */
function detailsOf(details: unknown): string {
  if (typeof details !== "object" || details === null) return "";
  const { parts, reason, ...others } = details as Record<string, unknown>;
  if (Array.isArray(parts)) return said.changed(parts.map(String));
  const rest = Object.entries(others).map(([name, value]) => `${name} ${String(value)}`);
  const all = [...(typeof reason === "string" && reason ? [reason] : []), ...rest];
  return all.length > 0 ? `: ${all.join(", ")}` : "";
}

/** What people and deploys did to it. */
function Acts(props: { acts: { at: string; verb: string; by: string; details: unknown }[] }) {
  if (props.acts.length === 0) return <None>{said.noHistory}</None>;
  return (
    <ol class="history">
      {props.acts.map((act, place) => (
        <li key={`${act.at} ${place}`}>
          <Time at={act.at} />
          <span>
            {act.verb === "ticked" ? said.ticksLine : act.verb} {act.by && <bdi>{words.alerts.by(act.by)}</bdi>}
            <bdi>{detailsOf(act.details)}</bdi>
          </span>
        </li>
      ))}
    </ol>
  );
}
