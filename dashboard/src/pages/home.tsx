// Home: what needs a person, the most urgent first, as `stepwell doctor` says it; beside it, what is under way.

import "./home.css";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { mayDo, type Offer, pageOffers } from "../acts";
import { actOf, type Finding } from "../acts/findings";
import { read, type Schemas } from "../api";
import { useFigures } from "../figures";
import { duration, number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActButton } from "../parts/acts";
import { FirstRun } from "../parts/first-run";
import { Icon, Mid, StatusMark } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { None, Skeleton } from "../parts/states";
import { Ago, Time } from "../parts/time";
import { to, toRun } from "../place";
import { shownAs, type Shown } from "../statuses";
import { words } from "../words";

const EVERY_MS = 5_000;
/** Checks of the store cost more, and change seldom. */
const STORE_EVERY_MS = 60_000;
const DAY_EVERY_MS = 20_000;
const DAY_BINS = 24;
const NEXT_MAX = 4;

type Example = Schemas["ExampleBody"];

interface Needs {
  hasRuns: boolean;
  /** What is not fine, the most urgent first: with its runs, and without. */
  ofRuns: Finding[];
  others: Finding[];
}

/** Findings about runs, by what has to be done first. */
const ORDER: Record<string, { title: string; shown: Shown }> = {
  rollbacks: { title: words.home.rollbacks, shown: "rollback_incomplete" },
  failed: { title: words.home.failed, shown: "failed" },
  stopped: { title: words.home.stopped, shown: "paused" },
  "changed code": { title: words.home.changedCode, shown: "paused" },
  pending: { title: words.home.unserved, shown: "pending" },
  paused: { title: words.home.paused, shown: "paused" },
};
const PLACES = Object.keys(ORDER);

async function readNeeds(signal: AbortSignal): Promise<Needs> {
  const [any, found] = await Promise.all([
    read("/api/runs", { query: { limit: 1, payloads: false } as never, signal }),
    read("/api/doctor", { query: { store: false } as never, signal }),
  ]);
  const open = found.needs.filter((one) => one.verdict !== "ok");
  return {
    hasRuns: any.runs.length > 0,
    ofRuns: open
      .filter((one) => one.examples.length > 0 && one.check in ORDER)
      .sort((one, other) => PLACES.indexOf(one.check) - PLACES.indexOf(other.check)),
    others: open.filter((one) => one.examples.length === 0 || !(one.check in ORDER)),
  };
}

async function readStore(signal: AbortSignal): Promise<Finding[]> {
  return (await read("/api/doctor", { signal })).store.filter((one) => one.verdict !== "ok");
}

export default function Home() {
  const needs = useReading("home", readNeeds, EVERY_MS);
  const store = useReading("doctor store", readStore, STORE_EVERY_MS).data.value ?? [];
  const needed = needs.data.value;
  const found = needed && { ...needed, others: [...needed.others, ...store].sort(failuresFirst) };
  useHead(words.home.title, [{ text: words.nav.home }]);
  const offers = found?.ofRuns.flatMap((one) => one.examples.flatMap((example) => offerOf(example) ?? [])) ?? [];
  useEffect(() => {
    pageOffers.value = [...offers, ...(found?.others.flatMap((one) => one.advice.flatMap((advice) => actOf(advice) ?? [])) ?? [])].filter(mayDo);
  }, [needed, store]);
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
        {found.others.length > 0 && <Health findings={found.others} />}
      </>
    );
  const total = found.ofRuns.length + found.others.length;
  return (
    <>
      <Head text={total === 0 ? words.home.nothing : words.home.findings(number(total), total === 1)} />
      <div class="home">
        <div>
          {found.ofRuns.map((one, place) => (
            <RunNeeds key={one.check} finding={one} isFirst={place === 0} />
          ))}
          {found.others.length > 0 && <Health findings={found.others} />}
          {total === 0 && <None>{words.home.calm}</None>}
        </div>
        <aside class="aside" aria-label={words.home.now}>
          <Now />
          <LastDay />
          <Next />
        </aside>
      </div>
    </>
  );
}

function failuresFirst(one: Finding, other: Finding): number {
  return Number(other.verdict === "fail") - Number(one.verdict === "fail");
}

/** What the server advises for one run, as a button with a short label. */
function offerOf(example: Example): Offer | undefined {
  const found = actOf(example.advice);
  const label = words.doctor.verbs[example.advice.verb];
  return found && label ? { ...found, act: { ...found.act, label } } : undefined;
}

function Health(props: { findings: Finding[] }) {
  return (
    <Section
      title={words.home.health}
      icon={<Icon name="doctor" class="warn-text" />}
      count={number(props.findings.length)}
      all={to("doctor")}
      allText={words.nav.doctor}
    >
      {props.findings.map((one, place) => {
        const offers = one.advice.flatMap((advice) => actOf(advice) ?? []).filter(mayDo);
        return (
          <Item
            key={`${one.check} ${place}`}
            offers={offers}
            otherwise={
              <a class="btn sm" href={to("doctor")}>
                {words.home.showFix}
              </a>
            }
            first={
              <>
                <b class={`strong nowrap ${one.verdict === "fail" ? "bad-text" : ""}`}>{sentence(one.check)}</b>
                <bdi class="ell" title={one.found}>
                  {one.found}
                </bdi>
              </>
            }
            second={one.why}
          />
        );
      })}
    </Section>
  );
}

function sentence(text: string): string {
  return text.replace(/^[a-z]/, (letter) => letter.toUpperCase());
}

function Head(props: { text: string }) {
  return (
    <div class="head">
      <h1>{words.home.title}</h1>
      <span class="sub">{props.text}</span>
    </div>
  );
}

function Section(props: {
  title: string;
  icon: ComponentChildren;
  count: string;
  all?: string;
  allText?: string;
  children: ComponentChildren;
}) {
  return (
    <section class="need" aria-label={props.title}>
      <header>
        {props.icon}
        <h2>
          {props.title} <span class="n">{props.count}</span>
        </h2>
        {props.all && <a href={props.all}>{props.allText ?? words.home.all}</a>}
      </header>
      <ul>{props.children}</ul>
    </section>
  );
}

function Item(props: {
  first: ComponentChildren;
  second: ComponentChildren;
  offers: Offer[];
  otherwise?: ComponentChildren;
  isPrimary?: boolean;
}) {
  const one = props.offers[0];
  return (
    <li>
      <div>
        <div class="l1">{props.first}</div>
        <div class="l2">{props.second}</div>
      </div>
      <div class="right">
        {one ? <ActButton offer={one} isSmall isPrimary={props.isPrimary ?? false} /> : props.otherwise}
      </div>
    </li>
  );
}

function RunNeeds(props: { finding: Finding; isFirst: boolean }) {
  const { finding } = props;
  const { title, shown } = ORDER[finding.check] ?? { title: finding.check, shown: "paused" as const };
  const runs = finding.runs ?? finding.examples.length;
  return (
    <Section
      title={title}
      icon={<StatusMark shown={shown}>{null}</StatusMark>}
      count={runs > COUNTED_MAX ? `${number(COUNTED_MAX)}+` : number(runs)}
      all={to("runs", { q: finding.filter })}
    >
      {finding.examples.map((run, place) => {
        const act = offerOf(run);
        return (
          <Item
            key={run.run_id}
            isPrimary={place === 0 && props.isFirst}
            offers={act && mayDo(act) ? [act] : []}
            otherwise={
              <a class="btn sm" href={toRun(run.run_id)}>
                {words.doctor.showOne}
              </a>
            }
            first={
              <>
                <a class="mono run-name" href={toRun(run.run_id)}>
                  <Mid text={run.key ?? run.run_id} />
                </a>
                <span class="ell" title={run.why}>
                  {run.where && <code>{run.where}</code>} <bdi>{run.why}</bdi>
                </span>
              </>
            }
            second={
              <>
                <bdi>{run.workflow}</bdi> v{run.version} · {words.statuses[shownAs(run.status)]} · <Ago at={run.since} />
              </>
            }
          />
        );
      })}
    </Section>
  );
}

/** The doctor stops counting there. */
const COUNTED_MAX = 1_000;

const NOW: [Shown, string[], string][] = [
  ["running", ["running"], "status:running"],
  ["waiting", ["waiting"], "status:waiting"],
  ["pending", ["pending"], "status:pending"],
  ["compensating", ["compensating", "cancelling"], "status:compensating,cancelling"],
  ["paused", ["paused"], "status:paused"],
];

function Now() {
  const figures = useFigures().data.value;
  if (!figures) return null;
  return (
    <>
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
    </>
  );
}

/** How many runs were created in the last day, and how many of them have failed. */
function LastDay() {
  const found = useReading(
    "home day",
    (signal) => read("/api/runs/histogram", { query: { q: "", bins: DAY_BINS, last: "24h" }, signal }),
    DAY_EVERY_MS,
  ).data.value;
  if (!found) return null;
  const created = found.bins.map((bin) => bin.runs);
  const failed = found.bins.map((bin) => bin.failed);
  const sum = (values: number[]) => values.reduce((total, one) => total + one, 0);
  const [all, bad] = [sum(created), sum(failed)];
  return (
    <section>
      <h2>{words.home.lastDay}</h2>
      <div class="figure">
        <b>{number(all)}</b>
        <Spark values={created} class="f-done" />
        <p>
          <a href={to("runs", { q: "since:24h" })}>{words.home.createdDay}</a>
        </p>
      </div>
      <div class="figure">
        <b>{bad === 0 ? "0" : `${((100 * bad) / all).toFixed(bad / all < 0.01 ? 2 : 1)}\u202f%`}</b>
        <Spark values={failed} class="f-bad" />
        <p>
          {bad === 0 ? (
            words.home.noneFailed
          ) : (
            <a href={to("runs", { q: "status:failed,compensated,rollback_incomplete since:24h" })}>
              {number(bad)} {words.home.failedDay}
            </a>
          )}
        </p>
      </div>
    </section>
  );
}

function Spark(props: { values: number[]; class: string }) {
  const highest = Math.max(1, ...props.values);
  const width = 96 / props.values.length;
  return (
    <svg class="spark" viewBox="0 0 96 20" preserveAspectRatio="none" aria-hidden="true">
      {props.values.map((value, place) => {
        const height = value === 0 ? 1 : Math.max(1.5, (20 * value) / highest);
        return <rect key={place} class={value === 0 ? "f-none" : props.class} x={place * width} width={width * 0.85} y={20 - height} height={height} />;
      })}
    </svg>
  );
}

/** What schedules start next. */
function Next() {
  const found = useReading("home next", (signal) => read("/api/schedules", { query: { state: "active", limit: 100 } as never, signal }), DAY_EVERY_MS).data.value;
  const next = (found?.schedules ?? [])
    .filter((one) => one.next_at !== null)
    .sort((one, other) => String(one.next_at).localeCompare(String(other.next_at)))
    .slice(0, NEXT_MAX);
  if (next.length === 0) return null;
  return (
    <section>
      <h2>{words.home.next}</h2>
      <ul class="next-list small">
        {next.map((one) => (
          <li key={one.name}>
            <bdi class="ell">{one.name}</bdi>
            <span class="dim nowrap">
              <Time at={one.next_at} />, <Ago at={one.next_at ?? ""} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
