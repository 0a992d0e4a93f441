// One run: why it is where it is and what moves it on, then the evidence in tabs.

import "./run.css";
import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso";
import { useEffect, useMemo } from "preact/hooks";
import { pageOffers } from "../acts";
import { advised, offersOf, type RunTarget } from "../acts/runs";
import type { Run } from "../api";
import { number } from "../formats";
import { useHead } from "../head";
import { useKeys } from "../keys";
import { sameAs, useFollow, useReading } from "../live";
import { CopyButton } from "../parts/copy";
import { Icon, Status } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { Skeleton } from "../parts/states";
import { FullTime, Took } from "../parts/time";
import { to, toRun } from "../place";
import { ActsTab } from "../run/acts-tab";
import { HistoryTab } from "../run/history-tab";
import { InputTab } from "../run/input-tab";
import { neighboursOf } from "../run/list";
import { RawTab } from "../run/raw-tab";
import { recordOf, type RunRecord } from "../run/record";
import { RelatedTab, relatedOf } from "../run/related-tab";
import { SignalsTab } from "../run/signals-tab";
import { TimelineTab } from "../run/timeline-tab";
import { UndoTab, undoStack } from "../run/undo-tab";
import { WhyBox } from "../run/why-box";
import { isEnded, originOf, wordOf } from "../statuses";
import { words } from "../words";

interface Tab {
  name: string;
  label: string;
  count?: number;
  show: () => ComponentChildren;
}

export default function RunPage(props: { params: Record<string, string>; query: Record<string, string> }) {
  const name = props.params["run"] ?? "";
  const { route } = useLocation();
  const ask = useMemo(() => recordOf(name), [name]);
  const reading = useReading(`run ${name}`, ask, 4_000);
  const record = reading.data.value;
  const id = record?.run.run_id;
  useEffect(() => {
    // A key may name another run later. The address names this one, so that it can be kept.
    if (!id || id === name) return;
    sameAs(`run ${name}`, `run ${id}`);
    route(toRun(id, props.query), true);
  }, [id]);
  const isActive = record !== undefined && !isEnded(record.run);
  useFollow(
    isActive ? record.run.run_id : undefined,
    () => reading.data.peek()?.entries.at(-1)?.seq ?? 0,
    () => reading.again(),
  );
  const title = record ? `${wordOf(record.run, record.waits)} · ${nameOf(record.run)} · ${record.run.workflow}` : name;
  useHead(title, [
    { text: words.nav.runs, href: to("runs") },
    ...(record ? [{ text: record.run.workflow, href: to("runs", { q: `workflow:${record.run.workflow}` }) }] : []),
    { text: record ? nameOf(record.run) : name, isCode: true },
  ]);
  if (!record)
    return reading.problem.value ? (
      <>
        <div class="head">
          <h1 class="mono">
            <bdi>{name}</bdi>
          </h1>
        </div>
        <ProblemBox problem={reading.problem.value} again={() => reading.again()} />
      </>
    ) : (
      <Skeleton rows={10} label={words.reading} />
    );
  return <Shown key={record.run.run_id} record={record} query={props.query} />;
}

function nameOf(run: Run): string {
  return run.key ?? run.run_id;
}

function Shown(props: { record: RunRecord; query: Record<string, string> }) {
  const { record, query } = props;
  const { run, waits } = record;
  const { route } = useLocation();
  const selected = query["at"] ?? "";
  const failedAt = run.failure ? originOf(run.failure).path : "";
  const target: RunTarget = {
    run,
    awaited: [...new Set(waits.filter((wait) => wait.kind === "signal").flatMap((wait) => wait.names))],
    path: selected || failedAt || waits[0]?.path || "",
  };
  const offers = advised(offersOf(target), record.why);
  useEffect(() => {
    pageOffers.value = offers;
  }, [run.status, run.hold === null, selected, target.awaited.join()]);
  const tabs = tabsOf(record, query, target);
  const tab = tabs.find((one) => one.name === query["tab"]) ?? tabs[0];
  const { before, after } = neighboursOf(run.run_id);
  const open = (id: string | undefined) => id && route(toRun(id, { tab: query["tab"] }));
  useKeys({
    "[": () => open(before),
    "]": () => open(after),
    ...Object.fromEntries(tabs.map((one, place) => [String(place + 1), () => route(toRun(run.run_id, { tab: one.name, at: selected }))])),
  });
  return (
    <>
      <div class="run-head">
        <div class="head">
          <h1 class="mono">
            <bdi>{nameOf(run)}</bdi>
          </h1>
          <CopyButton text={nameOf(run)} label={words.run.copyName} />
          <Status run={run} waits={waits} isBadge />
          {(before || after) && (
            <div class="acts">
              <Neighbour to={before} icon="up" label={words.run.before} />
              <Neighbour to={after} icon="down" label={words.run.after} />
            </div>
          )}
        </div>
        <Meta record={record} />
      </div>
      <WhyBox record={record} offers={offers} />
      <nav class="tabs" aria-label={words.run.tabs}>
        {tabs.map((one) => (
          <a
            key={one.name}
            href={toRun(run.run_id, { tab: one.name === "timeline" ? undefined : one.name, at: selected })}
            aria-current={one === tab ? "page" : undefined}
          >
            {one.label} {one.count !== undefined && <span class="n">{number(one.count)}</span>}
          </a>
        ))}
      </nav>
      <section class="tabpanel" aria-label={tab?.label} key={tab?.name}>
        {tab?.show()}
      </section>
    </>
  );
}

function tabsOf(record: RunRecord, query: Record<string, string>, target: RunTarget): Tab[] {
  const stack = undoStack(record.run, record.entries);
  const related = relatedOf(record);
  const said = words.run.tabNames;
  return [
    { name: "timeline", label: said.timeline, show: () => <TimelineTab record={record} selected={query["at"] ?? ""} target={target} /> },
    { name: "history", label: said.history, count: record.entries.length, show: () => <HistoryTab record={record} at={query["entry"] ?? ""} /> },
    { name: "signals", label: said.signals, show: () => <SignalsTab record={record} target={target} /> },
    { name: "undo", label: said.undo, count: stack.length, show: () => <UndoTab record={record} stack={stack} /> },
    { name: "io", label: said.io, show: () => <InputTab record={record} /> },
    { name: "related", label: said.related, count: related.length, show: () => <RelatedTab run={record.run} related={related} /> },
    { name: "acts", label: said.acts, count: record.acts.length, show: () => <ActsTab record={record} /> },
    { name: "raw", label: said.raw, show: () => <RawTab record={record} /> },
  ];
}

function Neighbour(props: { to: string | undefined; icon: "up" | "down"; label: string }) {
  if (!props.to) return null;
  return (
    <a class="icon-btn" href={toRun(props.to)} aria-label={props.label} title={props.label}>
      <Icon name={props.icon} />
    </a>
  );
}

function Meta(props: { record: RunRecord }) {
  const { run } = props.record;
  const tags = Object.entries(run.tags).filter(([name]) => name !== "traceparent");
  const said = words.run.meta;
  return (
    <dl class="meta">
      <Fact name={said.workflow}>
        <bdi>{run.workflow}</bdi> v{run.version}
      </Fact>
      {run.key !== null && (
        <Fact name={said.id}>
          <span class="mono">{run.run_id}</span>
        </Fact>
      )}
      {run.started_at ? (
        <Fact name={said.started}>
          <FullTime at={run.started_at} exact isBare />
        </Fact>
      ) : (
        <Fact name={said.created}>
          <FullTime at={run.created_at} exact isBare />
        </Fact>
      )}
      {run.started_at && (
        <Fact name={run.ended_at ? said.took : said.for}>
          <Took from={run.started_at} until={run.ended_at} />
        </Fact>
      )}
      {run.deadline_at && !isEnded(run) && (
        <Fact name={said.deadline}>
          <FullTime at={run.deadline_at} />
        </Fact>
      )}
      {run.priority !== 0 && <Fact name={said.priority}>{run.priority}</Fact>}
      {tags.length > 0 && (
        <Fact name={said.tags}>
          {tags.map(([name, value]) => (
            <span class="tag" key={name}>
              <bdi>{value ? `${name}=${value}` : name}</bdi>
            </span>
          ))}
        </Fact>
      )}
    </dl>
  );
}

function Fact(props: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}
