// Workflows: what can run here, who serves it, and how its runs ended.

import "./workflows.css";
import { useEffect } from "preact/hooks";
import { mayDo, offer, pageOffers } from "../acts";
import { resumeWorkflow, start, startable, type Workflow } from "../acts/others";
import { read, type Schemas } from "../api";
import { number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar, ActButton } from "../parts/acts";
import { Command } from "../parts/copy";
import { Icon } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { Empty, Skeleton } from "../parts/states";
import { Ago } from "../parts/time";
import { filterWord, to } from "../place";
import { words } from "../words";

export type Version = Schemas["VersionBody"];
export type Hold = Schemas["WorkflowHoldBody"];

/** One workflow in all its versions. */
export interface Summary {
  newest: Workflow;
  live: number;
  completed: number;
  failed: number;
  lastAt: string | null;
  workers: string[];
  /** Runs that wait for a worker with their version. */
  unserved: number;
  hold: Hold | undefined;
}

const FAILED = ["failed", "compensated", "compensation_failed"];

export function failedOf(runs: Record<string, number>): number {
  return FAILED.reduce((sum, status) => sum + (runs[status] ?? 0), 0);
}

/** The address of a workflow. */
export function toWorkflow(name: string): string {
  return to(`workflows/${encodeURIComponent(name)}`);
}

/** The runs of a workflow that a filter finds. */
export function toRunsOf(name: string, more = ""): string {
  return to("runs", { q: `workflow:${filterWord(name)}${more && ` ${more}`}` });
}

/** What is known of each workflow, by name, without those of stepwell itself. */
export function summariesOf(workflows: Workflow[], versions: Version[], holds: Hold[]): Summary[] {
  const all = holds.find((one) => one.workflow === null);
  return workflows
    .filter((one) => one.is_newest && !one.name.startsWith("stepwell."))
    .map((newest) => {
      const own = versions.filter((one) => one.workflow === newest.name);
      const sum = (of: (one: Version) => number) => own.reduce((total, one) => total + of(one), 0);
      return {
        newest,
        live: sum((one) => one.live),
        completed: sum((one) => one.runs["completed"] ?? 0),
        failed: sum((one) => failedOf(one.runs)),
        lastAt: own.reduce<string | null>((last, one) => (one.last_at && (!last || one.last_at > last) ? one.last_at : last), null),
        workers: [...new Set(own.flatMap((one) => one.served_by))].sort(),
        unserved: sum((one) => (one.is_unserved ? one.live : 0)),
        hold: holds.find((one) => one.workflow === newest.name) ?? all,
      };
    });
}

export default function Workflows() {
  const said = words.workflows;
  const known = useReading("workflows", (signal) => read("/api/workflows", { signal }), 10_000);
  const versions = useReading("workflow versions", (signal) => read("/api/versions", { signal }), 5_000);
  const holds = useReading("workflow holds", (signal) => read("/api/holds", { signal }), 5_000);
  const list = useRowKeys<HTMLTableElement>();
  useHead(words.nav.workflows, [{ text: words.nav.workflows }]);
  const isRead = known.data.value && versions.data.value && holds.data.value;
  const rows = isRead ? summariesOf(known.data.value.workflows, versions.data.value.versions, holds.data.value.holds) : [];
  const problem = known.problem.value ?? versions.problem.value ?? holds.problem.value;
  const offers = startable(known.data.value?.workflows).length > 0 ? [offer(start, startable(known.data.value?.workflows))] : [];
  const all = holds.data.value?.holds.find((one) => one.workflow === null);
  useEffect(() => {
    pageOffers.value = offers;
  }, [known.data.value]);
  const again = () => {
    for (const one of [known, versions, holds]) one.again();
  };
  return (
    <>
      <div class="head">
        <h1>{words.nav.workflows}</h1>
        {rows.length > 0 && <span class="sub">{said.sub(rows.length)}</span>}
        <div class="acts">
          {offers.filter(mayDo).map((one) => (
            <ActButton key={one.act.name} offer={one} isPrimary />
          ))}
        </div>
      </div>
      {!isRead && problem && <ProblemBox problem={problem} again={again} />}
      {!isRead && !problem && <Skeleton rows={8} label={words.reading} />}
      {all && <HeldBox hold={all} />}
      {isRead && rows.length === 0 && (
        <Empty title={said.none} text={said.noneText} command="stepwell worker app.py">
          <a class="btn" href={to("workers")}>
            {said.workers}
          </a>
        </Empty>
      )}
      {rows.length > 0 && (
        <>
          <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.label}>
            <table class="table wfs" ref={list}>
              <colgroup>
                <col />
                <col class="f-state" />
                <col class="f-n" />
                <col class="f-n" />
                <col class="f-failed" />
                <col class="f-last" />
              </colgroup>
              <thead>
                <tr>
                  <th>{said.workflow}</th>
                  <th>{said.state}</th>
                  <th class="num">{said.goingOn}</th>
                  <th class="num">{said.completed}</th>
                  <th class="num">{said.failed}</th>
                  <th class="num">{said.last}</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <Row key={row.newest.name} row={row} />
                ))}
              </tbody>
            </table>
          </div>
          <div class="foot">
            <Command text="stepwell workflow ls" />
            <Command text="stepwell versions" />
          </div>
        </>
      )}
    </>
  );
}

/** Who paused a workflow, or all of them, and how it goes on. */
export function HeldBox(props: { hold: Hold }) {
  const { hold } = props;
  const said = words.workflows;
  const one = offer(resumeWorkflow, hold.workflow);
  return (
    <section class="why t-idle held" aria-label={said.heldTitle}>
      <p class="label">
        <Icon name="s-paused" />
        {said.heldTitle}
      </p>
      <h2>{said.held(hold.by || words.somebody, hold.workflow === null)}</h2>
      <ul class="facts">
        <li>
          <Ago at={hold.at} />
          {hold.reason && (
            <>
              {" · “"}
              <bdi>{hold.reason}</bdi>”
            </>
          )}
        </li>
      </ul>
      <ActBar offers={[one]} />
    </section>
  );
}

function Row(props: { row: Summary }) {
  const { newest, live, completed, failed, lastAt } = props.row;
  const ended = completed + failed;
  return (
    <tr>
      <td>
        <span class="cell-run">
          <a class="id row-name ell" href={toWorkflow(newest.name)} title={newest.name}>
            <bdi>{newest.name}</bdi>
          </a>
          <span class="ver">v{newest.version}</span>
          <span class="title" title={newest.summary}>
            <bdi>{newest.summary}</bdi>
          </span>
        </span>
      </td>
      <td>
        <State row={props.row} />
      </td>
      <td class="num">
        <Figure count={live} href={toRunsOf(newest.name, "status:active")} />
      </td>
      <td class="num">
        <Figure count={completed} href={toRunsOf(newest.name, "status:completed")} />
      </td>
      <td class="num">
        <Figure count={failed} href={toRunsOf(newest.name, `status:${FAILED.join(",")}`)} isBad />
        <span class="part two">{failed > 0 && words.workflows.share(shareOf(failed, ended))}</span>
      </td>
      <td class="num two">{lastAt ? <Ago at={lastAt} /> : words.workflows.never}</td>
    </tr>
  );
}

/** A part in hundredths; never 0 for something, nor 100 for less than all. */
export function shareOf(part: number, whole: number): string {
  if (part === 0 || whole === 0) return "0";
  if (part === whole) return "100";
  return Math.min(99.9, Math.max(0.1, (100 * part) / whole)).toFixed(1);
}

/** A number that is a link to what it counts; a zero is only a zero. */
export function Figure(props: { count: number; href: string; isBad?: boolean }) {
  if (props.count === 0) return <span class="dim">0</span>;
  return (
    <a href={props.href} class={props.isBad ? "bad-text" : ""}>
      {number(props.count)}
    </a>
  );
}

function State(props: { row: Summary }) {
  const { hold, unserved, workers } = props.row;
  const said = words.workflows;
  if (hold)
    return (
      <span class="st st-paused">
        <Icon name="s-paused" />
        <span class="ell">{said.heldBy(hold.by || words.somebody)}</span>
      </span>
    );
  if (unserved > 0)
    return (
      <span class="st st-warning loud">
        <Icon name="s-warning" />
        <span class="ell">{said.unserved(unserved)}</span>
      </span>
    );
  if (workers.length === 0) return <span class="dim">{said.noWorker}</span>;
  return (
    <span class="two ell" title={workers.join(", ")}>
      {said.served(workers.length)}
    </span>
  );
}
