// One schedule: its next ticks, its rules, its last outcomes, and what differs from the code.

import type { ComponentChildren } from "preact";
import { offersOf, type Schedule, localTick, useCode } from "../acts/schedules";
import { offer } from "../acts";
import { read } from "../api";
import { span } from "../formats";
import { useReading } from "../live";
import { toRun } from "../place";
import { may } from "../session";
import { words } from "../words";
import { ActBar, ActButton } from "./acts";
import { Icon, Mid } from "./icon";
import { isHidden, Json } from "./json";
import { fateOf } from "./outcomes";
import { ProblemBox } from "./problem";
import type { IconName } from "./sprite";
import { None, Skeleton } from "./states";
import { Ago, Time } from "./time";

const said = words.schedules;
const OUTCOMES_SHOWN = 5;

/** What one reading has of a schedule. */
export function useSchedule(name: string) {
  return useReading(`schedule ${name}`, (signal) => read("/api/schedules/{schedule}", { parts: { schedule: name }, signal }), 5_000);
}

export function ScheduleDetail(props: { schedule: Schedule; isWhole?: boolean; children?: ComponentChildren }) {
  const { schedule } = props;
  const reading = useSchedule(schedule.name);
  const next = reading.data.value?.next;
  return (
    <>
      <Trouble schedule={schedule} />
      <div class="sched-grid">
        <section>
          <h3>{schedule.state === "paused" ? said.nextPaused : said.nextFive}</h3>
          {!next && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
          {!next && !reading.problem.value && <Skeleton rows={5} label={words.reading} />}
          {next?.length === 0 && <None>{said.never}</None>}
          <ol class="small next5">
            {next?.map((tick, place) => (
              <li key={tick.fire_time}>
                <span>{localTick(tick.local_time)}</span>
                <span class="dim">
                  {said.utc(tick.fire_time.slice(11, 16))}
                  {place === 0 && (
                    <>
                      , <Ago at={tick.fire_time} />
                    </>
                  )}
                </span>
                {tick.note && <span class="note">{tick.note}</span>}
              </li>
            ))}
          </ol>
        </section>
        <Rules schedule={schedule} />
        <section>
          <h3>{said.outcomes}</h3>
          <OutcomeList schedule={schedule} most={props.isWhole ? 20 : OUTCOMES_SHOWN} />
        </section>
      </div>
      {schedule.differences.length > 0 && <Differences schedule={schedule} />}
      <div class="gap-t">
        <ActBar offers={offersOf(schedule)} hasPrimary={props.isWhole ?? false} />
      </div>
      {props.children}
    </>
  );
}

/** Why it starts nothing, if so. */
function Trouble(props: { schedule: Schedule }) {
  const { schedule } = props;
  if (schedule.unreadable)
    return (
      <div class="callout t-bad gap-b">
        <Icon name="s-failed" />
        <div>{said.unreadable(schedule.unreadable)}</div>
      </div>
    );
  if (!schedule.problem) return null;
  return (
    <div class="callout t-bad gap-b">
      <Icon name="s-failed" />
      <div>
        <b class="strong">{said.cannotFire(schedule.problem.message)}</b> <code class="code-no">{schedule.problem.code}</code>
        <span class="dim">
          {" "}
          <Ago at={schedule.problem.since} />
        </span>
      </div>
    </div>
  );
}

function Rules(props: { schedule: Schedule }) {
  const { schedule } = props;
  const missed = said.catchUps[schedule.catch_up as keyof typeof said.catchUps] ?? schedule.catch_up;
  return (
    <section>
      <h3>{said.rules}</h3>
      <dl class="kv small">
        <dt>{said.overlap}</dt>
        <dd>{said.overlaps[schedule.overlap as keyof typeof said.overlaps] ?? schedule.overlap}</dd>
        <dt>{said.missed}</dt>
        <dd>{schedule.window_seconds === null ? missed : said.missedWithin(missed, span(schedule.window_seconds))}</dd>
        <dt>{said.jitter}</dt>
        <dd>{schedule.jitter_seconds > 0 ? said.upTo(span(schedule.jitter_seconds)) : said.noJitter}</dd>
        {schedule.held && (
          <>
            <dt>{said.held}</dt>
            <dd>
              <Time at={schedule.held} />, {said.heldUntil}
            </dd>
          </>
        )}
        <dt>{said.declared}</dt>
        <dd>{schedule.is_in_code ? said.inCode : said.byHand}</dd>
        {schedule.reason && (
          <>
            <dt>{said.reasonIs}</dt>
            <dd>
              <bdi>{schedule.reason}</bdi>
            </dd>
          </>
        )}
        <dt>{said.input}</dt>
        <dd>
          <Input value={schedule.input} />
        </dd>
      </dl>
    </section>
  );
}

const INPUT_SHOWN = 120;

function Input(props: { value: unknown }) {
  if (props.value === null || props.value === undefined) return <span class="dim">{said.noInput}</span>;
  if (isHidden(props.value)) return <span class="dim">{words.json.hidden}</span>;
  const text = JSON.stringify(props.value);
  return text.length <= INPUT_SHOWN ? <code>{text}</code> : <Json value={props.value} label={said.input} />;
}

const ICONS: Record<string, IconName> = { completed: "s-completed", failed: "s-failed", running: "s-running", none: "s-skipped", gone: "s-skipped" };

function OutcomeList(props: { schedule: Schedule; most: number }) {
  const { outcomes } = props.schedule;
  if (outcomes.length === 0) return <None>{said.noOutcome}</None>;
  return (
    <ul class="small outs">
      {outcomes.slice(0, props.most).map((one) => {
        const fate = fateOf(one);
        return (
          <li key={`${one.fire_time} ${one.kind}`}>
            <span class={`st st-${fate === "none" || fate === "gone" ? "skipped" : fate}`}>
              <Icon name={ICONS[fate] ?? "s-skipped"} />
            </span>
            <span class="out-what">
              {one.kind !== "started" || fate === "gone" ? (said.kinds[one.kind] ?? one.kind) : <span class="vh">{said.counts[fate]}</span>}
              {one.note && <span class="two">, {one.note}</span>}
              {fate === "gone" && `, ${said.gone}`}
              {one.run_id && fate !== "gone" && (
                <>
                  {one.kind !== "started" && " "}
                  <a class="mono run-of" href={toRun(one.run_id)}>
                    <Mid text={one.run_id} />
                  </a>
                </>
              )}
            </span>
            <span class="dim end">
              <Time at={one.fire_time} />
              {one.until && (
                <>
                  {" "}
                  {said.until("")}
                  <Time at={one.until} />
                </>
              )}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function shown(part: string, value: unknown): string {
  if (isHidden(value)) return "…";
  if (value === null || value === undefined) return said.noInput;
  if ((part === "window" || part === "jitter") && typeof value === "number") return span(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What a person changed of it, so that it differs from the code. */
function Differences(props: { schedule: Schedule }) {
  const { schedule } = props;
  return (
    <div class="callout t-warn gap-t">
      <Icon name="s-warning" />
      <div>
        <b class="strong">{said.differs}:</b>{" "}
        {schedule.differences.map((one, place) => (
          <span key={one.part}>
            {place > 0 && "; "}
            <bdi>{said.differsBy(one.by, said.parts[one.part] ?? one.part, shown(one.part, one.in_code), shown(one.part, one.now))}</bdi>
            {one.at && (
              <span class="dim">
                {" "}
                <Ago at={one.at} />
              </span>
            )}
          </span>
        ))}
        . {said.keeps} {may("steer") && <ActButton offer={offer(useCode, schedule)} isSmall />}
      </div>
    </div>
  );
}

/** When it is due next, in a row. */
export function NextTick(props: { schedule: Schedule }) {
  const { schedule } = props;
  if (schedule.state === "paused") return null;
  return schedule.next_at && !schedule.problem ? <Time at={schedule.next_at} /> : <span class="dim">{said.never}</span>;
}

/** The state of a schedule, in a row or as a pill. */
export function ScheduleState(props: { schedule: Schedule; isBadge?: boolean }) {
  const { schedule } = props;
  const [icon, tone, word]: [IconName, string, string] =
    schedule.unreadable || schedule.problem
      ? ["s-failed", "st-failed loud", said.broken]
      : schedule.state === "active"
        ? ["s-completed", "st-completed", said.states.active]
        : schedule.state === "paused"
          ? ["s-paused", "st-paused", schedule.by ? said.pausedBy(schedule.by) : said.states.paused]
          : ["s-skipped", "st-skipped", said.states[schedule.state]];
  return (
    <span class={`st ${tone} ${props.isBadge ? "badge" : ""}`}>
      <Icon name={icon} />
      <span class="ell">
        <bdi>{word}</bdi>
      </span>
    </span>
  );
}

