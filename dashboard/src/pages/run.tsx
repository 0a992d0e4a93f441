// One run: why it is where it is and what moves it on, then the evidence in tabs.

import "./run.css";
import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso";
import { useEffect, useRef, useState } from "preact/hooks";
import { pageOffers } from "../acts";
import { advised, offersOf, type RunTarget } from "../acts/runs";
import { read, type Run } from "../api";
import { number } from "../formats";
import { useHead } from "../head";
import { useKeys } from "../keys";
import { sameAs, useFollow } from "../live";
import { copy, CopyButton } from "../parts/copy";
import { Icon, Status } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { Skeleton } from "../parts/states";
import { FullTime, Took } from "../parts/time";
import { toast, toastProblem } from "../parts/toasts";
import { to, toRun } from "../place";
import { ActsTab } from "../run/acts-tab";
import { HistoryTab } from "../run/history-tab";
import { InputTab } from "../run/input-tab";
import { neighboursOf } from "../run/list";
import { RawTab } from "../run/raw-tab";
import { PublishedTab } from "../run/published-tab";
import { READINGS, type RunRecord, type RunTree, useRecord, useTree } from "../run/record";
import { RelatedTab, relatedOf } from "../run/related-tab";
import { SignalsTab } from "../run/signals-tab";
import { TimelineTab } from "../run/timeline-tab";
import { UndoTab } from "../run/undo-tab";
import { ThenBox, WhyBox } from "../run/why-box";
import { session } from "../session";
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
  const { reading, record } = useRecord(name);
  const id = record?.run.run_id;
  useEffect(() => {
    // A key may name another run later. The address names this one, so that it can be kept.
    if (!id || id === name) return;
    for (const one of READINGS) sameAs(`run ${name}${one}`, `run ${id}${one}`);
    route(toRun(id, props.query), true);
  }, [id]);
  useFollow(record !== undefined && !isEnded(record.run) ? record.run.run_id : undefined);
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
  const then = thenOf(query["then"]);
  const failedAt = run.failure ? originOf(run.failure).path : "";
  const target: RunTarget = {
    run,
    awaited: [...new Set(waits.filter((wait) => wait.kind === "signal").flatMap((wait) => wait.names))],
    path: selected || failedAt || waits[0]?.path || "",
  };
  const isPast = then !== undefined && (query["tab"] ?? "timeline") === "timeline";
  const offers = isPast ? [] : advised(offersOf(target), record.why);
  useEffect(() => {
    pageOffers.value = offers;
  }, [run.status, run.hold === null, selected, isPast, target.awaited.join()]);
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
          <div class="acts">
            <CopyAsTest run={run} />
            <Neighbour to={before} icon="up" label={words.run.before} />
            <Neighbour to={after} icon="down" label={words.run.after} />
          </div>
        </div>
        <Meta record={record} />
      </div>
      <Past
        run={run.run_id}
        then={tab?.name === "timeline" ? then : undefined}
        show={(past) => (past ? <ThenBox tree={past} /> : <WhyBox record={record} offers={offers} />)}
      />
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
      <section class="tabpanel" aria-label={tab && words.run.tabOf(tab.label)} key={tab?.name}>
        {tab?.show()}
      </section>
    </>
  );
}

/** The line of the history that the page looks back to, if it does. */
function thenOf(text: string | undefined): number | undefined {
  const line = Number(text ?? "");
  return text && Number.isSafeInteger(line) && line >= 0 ? line : undefined;
}

/** The run at an earlier line, if the page looks back. The one that was shown stays until the next one is read. */
function Past(props: { run: string; then: number | undefined; show: (past: RunTree | undefined) => ComponentChildren }) {
  const { tree } = useTree(props.run, props.then);
  const last = useRef<RunTree | undefined>(undefined);
  if (props.then === undefined) last.current = undefined;
  else if (tree) last.current = tree;
  return <>{props.show(last.current)}</>;
}

function tabsOf(record: RunRecord, query: Record<string, string>, target: RunTarget): Tab[] {
  const then = thenOf(query["then"]);
  const timeline = (past: RunTree | undefined) => <TimelineTab record={record} selected={query["at"] ?? ""} then={then} past={past} />;
  const related = relatedOf(record);
  const said = words.run.tabNames;
  return [
    {
      name: "timeline",
      label: said.timeline,
      show: () => <Past run={record.run.run_id} then={then} show={timeline} />,
    },
    { name: "history", label: said.history, count: record.tree?.root.node.count ?? 0, show: () => <HistoryTab record={record} at={query["entry"] ?? ""} /> },
    { name: "signals", label: said.signals, show: () => <SignalsTab record={record} target={target} /> },
    { name: "undo", label: said.undo, count: record.undos.length, show: () => <UndoTab record={record} /> },
    { name: "io", label: said.io, show: () => <InputTab record={record} /> },
    { name: "published", label: said.published, count: record.tree?.body.published.length ?? 0, show: () => <PublishedTab record={record} /> },
    { name: "related", label: said.related, count: related.length, show: () => <RelatedTab run={record.run} related={related} /> },
    { name: "acts", label: said.acts, count: record.acts.length, show: () => <ActsTab record={record} /> },
    { name: "raw", label: said.raw, show: () => <RawTab record={record} /> },
  ];
}

/** The run as a pytest, in the clipboard. */
function CopyAsTest(props: { run: Run }) {
  const [isBusy, setBusy] = useState(false);
  const said = words.test;
  const act = async () => {
    setBusy(true);
    try {
      const found = await read("/api/runs/{run}/test", { parts: { run: props.run.run_id } });
      await copy(found.text);
      toast({ title: said.copied, text: said.use(found.file_name) });
    } catch (error) {
      toastProblem(said.failed, error);
    } finally {
      setBusy(false);
    }
  };
  // A test has the payloads of its run.
  if (session.value?.sees_payloads === false) return null;
  return (
    <button type="button" class={`btn quiet sm ${isBusy ? "busy" : ""}`} aria-busy={isBusy} onClick={() => !isBusy && void act()}>
      <Icon name="test" />
      {said.copy}
    </button>
  );
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
