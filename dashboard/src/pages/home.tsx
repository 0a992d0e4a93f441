// Home: what needs a person, the most urgent first; beside it, what is under way.

import "./home.css";
import type { ComponentChildren } from "preact";
import { offer, type Offer } from "../acts";
import { resumeWorkflow } from "../acts/others";
import { offersOf } from "../acts/runs";
import { read, type Run, type Schemas, type Worker } from "../api";
import { useFigures } from "../figures";
import { count, duration, number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActButton } from "../parts/acts";
import { FirstRun } from "../parts/first-run";
import { Icon, Mid, StatusMark } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { None, Skeleton } from "../parts/states";
import { Ago } from "../parts/time";
import { mayDo } from "../acts";
import { to, toRun } from "../place";
import { reasonOf, type Shown } from "../statuses";
import { words } from "../words";

const LISTED_MAX = 5;
/** Work that waits so long for a worker is a finding. */
const OLD_SECONDS = 30;

interface Needs {
  hasRuns: boolean;
  rollbacks: Run[];
  failed: Run[];
  paused: Run[];
  holds: Schemas["WorkflowHoldBody"][];
  workers: Worker[];
  held: number;
}

async function readNeeds(signal: AbortSignal): Promise<Needs> {
  const list = async (q: string, limit = LISTED_MAX + 1) => (await read("/api/runs", { query: { q, limit }, signal })).runs;
  const [any, rollbacks, failed, paused, holds, workers, held] = await Promise.all([
    list("", 1),
    list("status:rollback_incomplete"),
    list("status:failed"),
    list("status:paused"),
    read("/api/holds", { signal }),
    read("/api/workers", { signal }),
    read("/api/signals/held", { query: { limit: 100 }, signal }),
  ]);
  return {
    hasRuns: any.length > 0,
    rollbacks,
    failed,
    paused,
    holds: holds.holds,
    workers: workers.workers,
    held: held.signals.length,
  };
}

export default function Home() {
  const needs = useReading("home", readNeeds, 5_000);
  const figures = useFigures();
  const found = needs.data.value;
  useHead(words.home.title, [{ text: words.nav.home }]);
  if (!found)
    return (
      <>
        <Head text="" />
        {needs.problem.value ? (
          <ProblemBox problem={needs.problem.value} again={() => needs.again()} />
        ) : (
          <Skeleton label={words.reading} />
        )}
      </>
    );
  if (!found.hasRuns)
    return (
      <>
        <Head text={words.home.nothingYet} />
        <FirstRun />
      </>
    );
  const lost = found.workers.filter((worker) => !worker.is_alive);
  const ready = figures.data.value;
  const isLate = ready !== undefined && ready.ready > 0 && ready.oldestSeconds > OLD_SECONDS;
  const health = lost.length + Number(isLate) + Number(found.held > 0);
  const total = found.rollbacks.length + found.failed.length + found.paused.length + found.holds.length + health;
  return (
    <>
      <Head text={total === 0 ? words.home.nothing : words.home.urgentFirst} />
      <div class="home">
        <div>
          <RunNeeds shown="rollback_incomplete" title={words.home.rollbacks} runs={found.rollbacks} q="status:rollback_incomplete" isFirst />
          <RunNeeds shown="failed" title={words.home.failed} runs={found.failed} q="status:failed" />
          <RunNeeds shown="paused" title={words.home.paused} runs={found.paused} q="status:paused" />
          {found.holds.length > 0 && (
            <Section title={words.home.workflows} icon={<Icon name="s-paused" />} count={number(found.holds.length)}>
              {found.holds.map((hold) => (
                <Item
                  key={hold.workflow ?? ""}
                  offers={[offer(resumeWorkflow, hold.workflow)]}
                  first={<b class="strong">{hold.workflow ?? words.home.every}</b>}
                  second={
                    <>
                      {words.home.heldBy(hold.by)} <Ago at={hold.at} />
                      {hold.reason && <> · “{hold.reason}”</>}
                    </>
                  }
                />
              ))}
            </Section>
          )}
          {health > 0 && (
            <Section title={words.home.health} icon={<Icon name="doctor" class="warn-text" />} count={number(health)}>
              {isLate && (
                <Item
                  first={<a href={to("runs", { q: "status:pending,waiting" })} class="strong">{words.home.late(ready.ready)}</a>}
                  second={words.home.lateWhy(duration(ready.oldestSeconds * 1_000), count(ready.workers, "worker"))}
                />
              )}
              {lost.map((worker) => (
                <Item
                  key={worker.incarnation}
                  first={
                    <a href={to("workers")} class="strong">
                      {words.home.lost(worker.name)}
                    </a>
                  }
                  second={
                    <>
                      {words.home.lostSince} <Ago at={worker.lease_until} />
                    </>
                  }
                />
              ))}
              {found.held > 0 && (
                <Item first={<b class="strong">{words.home.held(count(found.held, "signal"))}</b>} second={words.home.heldWhy} />
              )}
            </Section>
          )}
          {total === 0 && <None>{words.home.calm}</None>}
        </div>
        <Now />
      </div>
    </>
  );
}

function Head(props: { text: string }) {
  return (
    <div class="head">
      <h1>{words.home.title}</h1>
      <span class="sub">{props.text}</span>
    </div>
  );
}

function Section(props: { title: string; icon: ComponentChildren; count: string; all?: string; children: ComponentChildren }) {
  return (
    <section class="need" aria-label={props.title}>
      <header>
        {props.icon}
        <h2>
          {props.title} <span class="n">{props.count}</span>
        </h2>
        {props.all && <a href={props.all}>{words.home.all}</a>}
      </header>
      <ul>{props.children}</ul>
    </section>
  );
}

function Item(props: { first: ComponentChildren; second: ComponentChildren; offers?: Offer[]; isPrimary?: boolean }) {
  const one = props.offers?.find(mayDo);
  return (
    <li>
      <div>
        <div class="l1">{props.first}</div>
        <div class="l2">{props.second}</div>
      </div>
      <div class="right">{one && <ActButton offer={one} isSmall isPrimary={props.isPrimary ?? false} />}</div>
    </li>
  );
}

function RunNeeds(props: { shown: Shown; title: string; runs: Run[]; q: string; isFirst?: boolean }) {
  if (props.runs.length === 0) return null;
  const many = props.runs.length > LISTED_MAX;
  return (
    <Section
      title={props.title}
      icon={<StatusMark shown={props.shown}>{null}</StatusMark>}
      count={many ? words.home.orMore(LISTED_MAX) : number(props.runs.length)}
      all={to("runs", { q: props.q })}
    >
      {props.runs.slice(0, LISTED_MAX).map((run, place) => {
        const { path, text } = reasonOf(run);
        return (
          <Item
            key={run.run_id}
            isPrimary={place === 0 && props.isFirst === true}
            offers={offersOf({ run, awaited: [], path: "" })}
            first={
              <>
                <a class="mono run-name" href={toRun(run.run_id)}>
                  <Mid text={run.key ?? run.run_id} />
                </a>
                <span class="ell" title={text}>
                  {path && <code>{path}</code>} <bdi>{text || run.reason}</bdi>
                </span>
              </>
            }
            second={
              <>
                {run.workflow} v{run.version} · {run.ended_at ? words.home.ended : words.home.began}{" "}
                <Ago at={run.ended_at ?? run.hold?.at ?? run.started_at ?? run.created_at} />
                {run.hold && <> · {words.statuses.pausedBy(run.hold.by || words.somebody)}</>}
              </>
            }
          />
        );
      })}
    </Section>
  );
}

const NOW: [Shown, string[], string][] = [
  ["running", ["running"], "status:running"],
  ["waiting", ["waiting"], "status:waiting"],
  ["pending", ["pending"], "status:pending"],
  ["compensating", ["compensating", "cancelling"], "status:compensating,cancelling"],
  ["paused", ["paused"], "status:paused"],
];

function Now() {
  const figures = useFigures().data.value;
  if (!figures) return <aside class="aside" />;
  return (
    <aside class="aside" aria-label={words.home.now}>
      <section>
        <h2>{words.home.now}</h2>
        <div class="now-list">
          {NOW.map(([shown, statuses, q]) => {
            const total = statuses.reduce((sum, status) => sum + (figures.runs[status] ?? 0), 0);
            return (
              <a key={shown} href={to("runs", { q })}>
                <StatusMark shown={shown}>{words.statuses[shown]}</StatusMark>
                <span class={`n ${total === 0 ? "dim" : ""}`}>{number(total)}</span>
              </a>
            );
          })}
        </div>
      </section>
      <section>
        <h2>{words.home.queue}</h2>
        <div class="figure">
          <b>{number(figures.ready)}</b>
          <p>
            {words.home.ready}
            {figures.ready > 0 && words.home.oldest(duration(figures.oldestSeconds * 1_000))}
          </p>
        </div>
        <div class="figure">
          <b>{number(figures.workers)}</b>
          <p>
            <a href={to("workers")}>{words.home.workers(figures.workers)}</a>
          </p>
        </div>
      </section>
    </aside>
  );
}
