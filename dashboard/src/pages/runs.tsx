// Runs: a filter, and the runs that it finds. New runs wait until they are asked for; what is shown stays where it is.

import { useLocation } from "preact-iso";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { mayDo, offer, pageOffers } from "../acts";
import { start, startable } from "../acts/others";
import { read, type Run } from "../api";
import { useFigures } from "../figures";
import { number } from "../formats";
import { useHead } from "../head";
import { useKeys } from "../keys";
import { useReading } from "../live";
import { ActButton } from "../parts/acts";
import { FilterBox } from "../parts/filter";
import { FirstRun } from "../parts/first-run";
import { Icon, Mid, Status } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { Skeleton } from "../parts/states";
import { Took, Time } from "../parts/time";
import { to, toRun } from "../place";
import { listed } from "../run/list";
import { reasonOf } from "../statuses";
import { words } from "../words";

const PAGE = 50;
const READ_MAX = 500;

interface View {
  name: string;
  q: string;
  statuses: string[];
  isAlarm?: true;
}

const VIEWS: View[] = [
  { name: words.runs.all, q: "", statuses: [] },
  { name: words.statuses.running, q: "status:running", statuses: ["running"] },
  { name: words.statuses.waiting, q: "status:waiting", statuses: ["waiting"] },
  { name: words.statuses.failed, q: "status:failed", statuses: [] },
  { name: words.statuses.paused, q: "status:paused", statuses: ["paused"] },
  { name: words.statuses.rollback_incomplete, q: "status:rollback_incomplete", statuses: ["compensation_failed"], isAlarm: true },
];

export default function Runs(props: { query: Record<string, string> }) {
  const q = props.query["q"] ?? "";
  const cursor = props.query["cursor"];
  useHead(q ? `${words.nav.runs}: ${q}` : words.nav.runs, [{ text: words.nav.runs }]);
  return <Found q={q} cursor={cursor} />;
}

/** The page of runs that a person looks at: it keeps its rows, with what is known of each now. Another name is another page. */
function useSteadyRows(name: string, found: Run[] | undefined, isSorted: boolean) {
  const [state, setState] = useState<{ name: string; ids: string[] } | undefined>(undefined);
  const known = useRef(new Map<string, Run>());
  for (const run of found ?? []) known.current.set(run.run_id, run);
  const shown = state?.name === name ? state.ids : undefined;
  const setShown = (ids: string[]) => setState({ name, ids });
  useEffect(() => {
    if (found && (!shown || isSorted)) setShown(found.slice(0, PAGE).map((run) => run.run_id));
  }, [found]);
  const ids = shown ?? found?.slice(0, PAGE).map((run) => run.run_id) ?? [];
  const present = new Set(found?.map((run) => run.run_id));
  const firstShown = ids.find((id) => present.has(id));
  const before = found?.findIndex((run) => run.run_id === firstShown) ?? -1;
  return {
    rows: ids.flatMap((id) => known.current.get(id) ?? []),
    /** Runs that came since, above those that are shown. */
    newer: firstShown === undefined && ids.length === 0 ? (found?.length ?? 0) : Math.max(0, before),
    hasLeft: (run: Run) => found !== undefined && !present.has(run.run_id),
    show: () => setShown(found?.slice(0, PAGE).map((run) => run.run_id) ?? []),
  };
}

function Found(props: { q: string; cursor: string | undefined }) {
  const { q, cursor } = props;
  const { route } = useLocation();
  const workflows = useReading("workflows", (signal) => read("/api/workflows", { signal }), 30_000).data.value?.workflows;
  const offers = startable(workflows).length > 0 ? [offer(start, startable(workflows))] : [];
  const limit = useRef(PAGE);
  const name = `runs ${q} ${cursor ?? ""}`;
  const reading = useReading(
    name,
    (signal) => read("/api/runs", { query: { q, limit: limit.current, ...(cursor ? { cursor } : {}) }, signal }),
    2_000,
  );
  const page = reading.data.value;
  const isSorted = /(?:^|\s)sort:/.test(q);
  const list = useSteadyRows(name, page?.runs, isSorted);
  // Rows that newer ones push down are read too, so that they stay true.
  limit.current = Math.min(READ_MAX, PAGE + list.newer);
  useEffect(() => {
    listed.value = list.rows.map((run) => run.run_id);
  }, [list.rows.map((run) => run.run_id).join()]);
  const change = (filter: string) => route(to("runs", { q: filter }));
  const isFilterWrong = reading.problem.value?.code === "SW407";
  useEffect(() => {
    pageOffers.value = offers;
  }, [workflows]);
  return (
    <>
      <div class="head">
        <h1>{words.nav.runs}</h1>
        <Views q={q} />
        <div class="acts">
          {offers.filter(mayDo).map((one) => (
            <ActButton key={one.act.name} offer={one} isPrimary />
          ))}
        </div>
      </div>
      <FilterBox
        filter={q}
        onChange={change}
        workflows={[...new Set(workflows?.map((one) => one.name))]}
        problem={isFilterWrong ? reading.problem.value : undefined}
        count={page ? countOf(list.rows.length, page.next !== null, cursor !== undefined) : ""}
      />
      {reading.problem.value && !isFilterWrong && !page && (
        <ProblemBox problem={reading.problem.value} again={() => reading.again()} />
      )}
      {!page && !reading.problem.value && <Skeleton rows={12} label={words.reading} />}
      {page && list.rows.length === 0 && list.newer === 0 && (q ? <NothingFound q={q} onChange={change} /> : <FirstRun />)}
      {(list.rows.length > 0 || list.newer > 0) && (
        <>
          <div class="bleed runs-list">
            {list.newer > 0 && !cursor && (
              <button type="button" class="newrows" onClick={list.show}>
                {words.runs.newer(list.newer >= READ_MAX ? `${number(READ_MAX)}+` : number(list.newer), list.newer)}
              </button>
            )}
            <Table rows={list.rows} hasLeft={list.hasLeft} />
          </div>
          <Foot q={q} cursor={cursor} next={page?.next ?? null} />
        </>
      )}
    </>
  );
}

function countOf(rows: number, hasMore: boolean, isLater: boolean): string {
  if (hasMore || isLater) return words.runs.newestOf(number(rows));
  return words.runs.found(number(rows), rows);
}

function Views(props: { q: string }) {
  const figures = useFigures().data.value;
  return (
    <nav class="views" aria-label={words.runs.views}>
      {VIEWS.map((view) => {
        const total = view.statuses.reduce((sum, status) => sum + (figures?.runs[status] ?? 0), 0);
        return (
          <a
            key={view.q}
            href={to("runs", { q: view.q })}
            aria-current={props.q === view.q ? "page" : undefined}
            class={view.isAlarm && total > 0 ? "alarm" : ""}
          >
            {view.name} {figures && view.statuses.length > 0 && <span class="n">{number(total)}</span>}
          </a>
        );
      })}
    </nav>
  );
}

function NothingFound(props: { q: string; onChange: (q: string) => void }) {
  return (
    <div class="empty">
      <h2>{words.runs.nothing}</h2>
      <p>
        <code>{props.q}</code> {words.runs.nothingWhy}
      </p>
      <div class="acts">
        <button type="button" class="btn" onClick={() => props.onChange("")}>
          {words.runs.showAll}
        </button>
      </div>
    </div>
  );
}

function Table(props: { rows: Run[]; hasLeft: (run: Run) => boolean }) {
  const { route } = useLocation();
  const table = useRef<HTMLTableElement>(null);
  const links = () => [...(table.current?.querySelectorAll<HTMLAnchorElement>("a.id") ?? [])];
  const move = (step: number) => {
    const all = links();
    const at = all.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
    all[Math.min(all.length - 1, Math.max(0, at + step))]?.focus();
  };
  const here = () => props.rows[links().findIndex((link) => link.closest("tr")?.contains(document.activeElement))];
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    w: () => {
      const run = here();
      if (run) route(toRun(run.run_id));
    },
  });
  return (
    <table class="table cards" role="table" aria-label={words.nav.runs} ref={table}>
      <colgroup>
        <col class="c-status" />
        <col />
        <col class="c-wf" />
        <col class="c-why" />
        <col class="c-time" />
        <col class="c-took" />
      </colgroup>
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader">{words.runs.status}</th>
          <th role="columnheader">{words.runs.run}</th>
          <th role="columnheader" class="wf">
            {words.runs.workflow}
          </th>
          <th role="columnheader">{words.runs.why}</th>
          <th role="columnheader" class="num">
            {words.runs.created}
          </th>
          <th role="columnheader" class="num">
            {words.runs.took}
          </th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {props.rows.map((run) => (
          <RunRow key={run.run_id} run={run} hasLeft={props.hasLeft(run)} />
        ))}
      </tbody>
    </table>
  );
}

function RunRow(props: { run: Run; hasLeft: boolean }) {
  const { run } = props;
  const reason = useMemo(() => reasonOf(run), [run]);
  return (
    <tr role="row" class={props.hasLeft ? "gone" : ""}>
      <td role="cell">
        {props.hasLeft ? <span class="st dim">{words.runs.left}</span> : <Status run={run} />}
      </td>
      <td role="cell" class="full">
        <span class="cell-run">
          <a class="id" href={toRun(run.run_id)}>
            <Mid text={run.key ?? run.run_id} />
          </a>
          <Tags run={run} />
        </span>
      </td>
      <td role="cell" class="hide-s wf">
        <bdi>{run.workflow}</bdi> <span class="ver">v{run.version}</span>
      </td>
      <td role="cell" class="full">
        <span class="cell-why">
          {reason.path && <span class="path">{reason.path}</span>}
          <span class="because" title={reason.text}>
            {reason.text || <Due run={run} />}
          </span>
        </span>
      </td>
      <td role="cell" class="num two age-s">
        <Time at={run.created_at} />
      </td>
      <td role="cell" class="num hide-s">
        <Took from={run.started_at} until={run.ended_at} />
      </td>
    </tr>
  );
}

/** By when a waiting run goes on at the latest. */
function Due(props: { run: Run }) {
  const { run } = props;
  if (run.status !== "waiting" || !run.wake_at) return null;
  return (
    <>
      {words.runs.atTheLatest} <Time at={run.wake_at} />
    </>
  );
}

function Tags(props: { run: Run }) {
  const tags = Object.entries(props.run.tags).filter(([name]) => name !== "traceparent");
  if (tags.length === 0) return null;
  return (
    <span class="title">
      {tags.map(([name, value]) => (
        <span class="tag" key={name}>
          <bdi>{value ? `${name}=${value}` : name}</bdi>
        </span>
      ))}
    </span>
  );
}

function Foot(props: { q: string; cursor: string | undefined; next: string | null }) {
  return (
    <div class="foot">
      <span class="keys">
        <kbd>j</kbd>
        <kbd>k</kbd> {words.keys.move} <kbd>↵</kbd> {words.keys.open} <kbd>f</kbd> {words.keys.filter} <kbd>?</kbd> {words.keys.all}
      </span>
      <nav class="pager" aria-label={words.runs.pages}>
        {props.cursor && (
          <a class="btn sm" href={to("runs", { q: props.q })}>
            <Icon name="first" />
            {words.runs.newest}
          </a>
        )}
        {props.next && (
          <a class="btn sm" href={to("runs", { q: props.q, cursor: props.next })}>
            {words.runs.older}
            <Icon name="right" />
          </a>
        )}
      </nav>
    </div>
  );
}
