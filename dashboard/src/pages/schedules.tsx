// Schedules: what time starts, when next, and what became of the last ticks.

import "./schedules.css";
import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";
import { offer, pageOffers } from "../acts";
import { startable } from "../acts/others";
import { create, offersOf, type Schedule, toSchedule } from "../acts/schedules";
import { read } from "../api";
import { count, zoneName } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActButton } from "../parts/acts";
import { Command } from "../parts/copy";
import { Icon } from "../parts/icon";
import { countFates, Outcomes } from "../parts/outcomes";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { NextTick, ScheduleDetail, ScheduleState } from "../parts/schedule";
import { Empty, Skeleton } from "../parts/states";
import { Ago } from "../parts/time";
import { to } from "../place";
import { may } from "../session";
import { words } from "../words";

const said = words.schedules;
const MOST = 500;

/** Those that cannot start runs come first, then by name. */
export function inOrder(schedules: Schedule[]): Schedule[] {
  const rank = (one: Schedule) => (one.problem || one.unreadable ? 0 : 1);
  return [...schedules].sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name));
}

export default function Schedules(props: { query: Record<string, string> }) {
  const open = props.query["open"] ?? "";
  const { route } = useLocation();
  const reading = useReading("schedules", (signal) => read("/api/schedules", { query: { limit: MOST } as never, signal }), 5_000);
  const workflows = useReading("workflows", (signal) => read("/api/workflows", { signal }), 30_000).data.value?.workflows;
  const list = useRowKeys<HTMLTableElement>();
  useHead(words.nav.schedules, [{ text: words.nav.schedules }]);
  const found = reading.data.value?.schedules;
  const chosen = found?.find((one) => one.name === open);
  const make = offer(create, startable(workflows));
  useEffect(() => {
    pageOffers.value = [...(chosen ? offersOf(chosen) : []), make];
  }, [chosen?.name, chosen?.state, workflows?.length]);
  const broken = found?.filter((one) => one.problem || one.unreadable).length ?? 0;
  return (
    <>
      <div class="head">
        <h1>{words.nav.schedules}</h1>
        {found && found.length > 0 && <span class="sub">{said.sub(String(found.length), broken)}</span>}
        {may("steer") && found && found.length > 0 && (
          <div class="acts">
            <ActButton offer={make} isPrimary />
          </div>
        )}
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={6} label={words.reading} />}
      {found?.length === 0 && (
        <Empty title={said.none} text={said.noneText} command='stepwell schedule new nightly report --cron "0 6 * * 1-5" --tz Europe/Berlin'>
          {may("steer") && <ActButton offer={make} isPrimary />}
        </Empty>
      )}
      {found && found.length > 0 && (
        <>
          <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.label}>
            <table class="table sched" ref={list}>
              <colgroup>
                <col class="k-name" />
                <col class="k-wf" />
                <col />
                <col class="k-next" />
                <col class="k-in" />
                <col class="k-out" />
                <col class="k-on" />
              </colgroup>
              <thead>
                <tr>
                  <th>{said.name}</th>
                  <th>{said.runs}</th>
                  <th>{said.when}</th>
                  <th class="num">{said.next(zoneName())}</th>
                  <th class="num">{said.in}</th>
                  <th>{said.last}</th>
                  <th>{said.state}</th>
                </tr>
              </thead>
              <tbody>
                {inOrder(found).map((one) => (
                  <Row
                    key={one.name}
                    schedule={one}
                    isOpen={one === chosen}
                    onTurn={() => route(to("schedules", { open: one === chosen ? undefined : one.name }), true)}
                  />
                ))}
              </tbody>
            </table>
          </div>
          <div class="foot">
            <span class="key">{said.keys.done}</span>
            <span class="key bad">{said.keys.bad}</span>
            <span class="key run">{said.keys.run}</span>
            <span>{said.keys.skipped}</span>
            <span>{said.zones}</span>
            <Command text="stepwell schedule ls" />
          </div>
        </>
      )}
    </>
  );
}

function Row(props: { schedule: Schedule; isOpen: boolean; onTurn: () => void }) {
  const { schedule, isOpen } = props;
  const odd = countFates(schedule.outcomes, true);
  return (
    <>
      <tr aria-selected={isOpen}>
        <td>
          <button type="button" class="row-open row-name" aria-expanded={isOpen} title={schedule.name} onClick={props.onTurn}>
            <Icon name="right" />
            <span class="id ell name">
              <bdi>{schedule.name}</bdi>
            </span>
          </button>
        </td>
        <td>
          <a href={to(`workflows/${encodeURIComponent(schedule.workflow)}`)}>
            <bdi>{schedule.workflow}</bdi>
          </a>
        </td>
        <td title={schedule.when}>{schedule.when}</td>
        <td class="num">
          <NextTick schedule={schedule} />
        </td>
        <td class="num dim">{schedule.next_at && !schedule.problem && <Ago at={schedule.next_at} />}</td>
        <td>
          {schedule.outcomes.length === 0 ? (
            <span class="dim">{said.neverRan}</span>
          ) : (
            <span class="row tight-row">
              <Outcomes outcomes={schedule.outcomes} />
              <span class="two ell" title={odd}>
                {odd}
              </span>
            </span>
          )}
        </td>
        <td>
          <ScheduleState schedule={schedule} />
        </td>
      </tr>
      {isOpen && (
        <tr class="detail-row">
          <td class="detail-cell" colSpan={7}>
            <div class="detail">
              <ScheduleDetail schedule={schedule}>
                <p class="gap-t">
                  <a href={toSchedule(schedule.name)}>{said.page}</a>
                  <span class="dim"> · {count(schedule.outcomes.length, "outcome")}</span>
                </p>
              </ScheduleDetail>
            </div>
          </td>
        </tr>
      )}
    </>
  );
}
