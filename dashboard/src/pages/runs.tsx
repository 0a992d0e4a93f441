// Runs: a filter, and the runs that it finds. New runs wait until they are asked for; what is shown stays where it is.

import "../runs/list.css";
import { useLocation } from "preact-iso";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { mayDo, type Offer, offer, pageOffers } from "../acts";
import { bulkOffers } from "../acts/bulks";
import { start, startable } from "../acts/others";
import { deleteView, saveView, type View } from "../acts/views";
import { read, type Run } from "../api";
import { useFigures } from "../figures";
import { number } from "../formats";
import { useHead } from "../head";
import { useKeys } from "../keys";
import { useReading } from "../live";
import { ActButton } from "../parts/acts";
import { FilterBox, termsOf } from "../parts/filter";
import { FirstRun } from "../parts/first-run";
import { Icon, IconButton } from "../parts/icon";
import { Menu } from "../parts/menu";
import { ProblemBox } from "../parts/problem";
import { Skeleton } from "../parts/states";
import { to, toRun } from "../place";
import { listed } from "../run/list";
import { choices, type Column, columnsOf, DEFAULT, FITTING, type Reason } from "../runs/columns";
import { Histogram, LASTS } from "../runs/histogram";
import { nextSort, sortedBy, sortOf } from "../runs/query";
import { type Selection, useSelection } from "../runs/selection";
import { keptColumns } from "../settings";
import { words } from "../words";

const PAGE = 50;
const READ_MAX = 500;
const COUNT_EVERY_MS = 15_000;
const LAST = "24h";
/** How much of a wide table a column takes. */
const COLUMN_REM = 11;

interface UsualView {
  name: string;
  q: string;
  statuses: string[];
  isAlarm?: true;
}

const VIEWS: UsualView[] = [
  { name: words.runs.all, q: "", statuses: [] },
  { name: words.statuses.running, q: "status:running", statuses: ["running"] },
  { name: words.statuses.waiting, q: "status:waiting", statuses: ["waiting"] },
  { name: words.statuses.failed, q: "status:failed", statuses: [] },
  { name: words.statuses.paused, q: "status:paused", statuses: ["paused"] },
  { name: words.statuses.rollback_incomplete, q: "status:rollback_incomplete", statuses: ["compensation_failed"], isAlarm: true },
];

export default function Runs(props: { query: Record<string, string> }) {
  const q = props.query["q"] ?? "";
  useHead(q ? `${words.nav.runs}: ${q}` : words.nav.runs, [{ text: words.nav.runs }]);
  return <Found q={q} query={props.query} />;
}

interface Rows {
  rows: Run[];
  /** Runs that came since, above those that are shown. */
  newer: number;
  /** Whether the order or the runs of a sorted list are others now. */
  isOther: boolean;
  hasLeft: (run: Run) => boolean;
  show: () => void;
}

/** The page of runs that a person looks at: it keeps its rows, with what is known of each now. Another name is another page. */
function useSteadyRows(name: string, found: Run[] | undefined, isSorted: boolean): Rows {
  const [state, setState] = useState<{ name: string; ids: string[] } | undefined>(undefined);
  const known = useRef(new Map<string, Run>());
  for (const run of found ?? []) known.current.set(run.run_id, run);
  const shown = state?.name === name ? state.ids : undefined;
  const setShown = (ids: string[]) => setState({ name, ids });
  const first = found?.slice(0, PAGE).map((run) => run.run_id);
  useEffect(() => {
    if (first && !shown) setShown(first);
  }, [found]);
  const ids = shown ?? first ?? [];
  const present = new Set(found?.map((run) => run.run_id));
  const firstShown = ids.find((id) => present.has(id));
  const before = found?.findIndex((run) => run.run_id === firstShown) ?? -1;
  return {
    rows: ids.flatMap((id) => known.current.get(id) ?? []),
    newer: isSorted ? 0 : firstShown === undefined && ids.length === 0 ? (found?.length ?? 0) : Math.max(0, before),
    isOther: isSorted && first !== undefined && first.join() !== ids.join(),
    hasLeft: (run) => found !== undefined && !present.has(run.run_id),
    show: () => setShown(first ?? []),
  };
}

function Found(props: { q: string; query: Record<string, string> }) {
  const { q, query } = props;
  const cursor = query["cursor"];
  const last = LASTS.find((one) => one === query["last"]) ?? LAST;
  const { route } = useLocation();
  const workflows = useReading("workflows", (signal) => read("/api/workflows", { signal }), 30_000).data.value?.workflows;
  const views = useReading("views", (signal) => read("/api/views", { signal }), 30_000).data.value?.views ?? [];
  const view = views.find((one) => one.name === query["view"] && whereOf(one) === q);
  const columns = chosenColumns(query["columns"], view);
  const limit = useRef(PAGE);
  const name = `runs ${q} ${cursor ?? ""}`;
  const reading = useReading(
    name,
    (signal) =>
      read("/api/runs", {
        query: { q, limit: limit.current, reasons: true, payloads: false, ...(cursor ? { cursor } : {}) } as never,
        signal,
      }),
    2_000,
  );
  const page = reading.data.value;
  const sort = sortOf(q);
  const list = useSteadyRows(name, page?.runs, sort !== "" && sort !== "-created" && sort !== "-id");
  const reasons = useReasons(page?.runs, page?.reasons ?? undefined);
  const selection = useSelection(q, list.rows);
  // Rows that newer ones push down are read too, so that they stay true.
  limit.current = Math.min(READ_MAX, PAGE + list.newer);
  useEffect(() => {
    listed.value = list.rows.map((run) => run.run_id);
  }, [list.rows.map((run) => run.run_id).join()]);
  const visit = (change: Record<string, string | undefined>) =>
    route(to("runs", { q, view: query["view"], columns: query["columns"], last: query["last"], ...change }));
  const change = (filter: string) => visit({ q: filter });
  const isFilterWrong = reading.problem.value?.code === "SW407" || reading.problem.value?.code === "SW803";
  const starts = startable(workflows).length > 0 ? [offer(start, startable(workflows))] : [];
  const saves = (q || query["columns"]) && !isFilterWrong ? [offer(saveView, { q, columns: query["columns"] ? columns.map((one) => one.name) : [...(view?.columns ?? [])], name: view?.name ?? "" })] : [];
  const deletes = view ? [offer(deleteView, view)] : [];
  const onMany = useBulkOffers(selection, sortedBy(q, ""));
  const offers = [...onMany, ...starts, ...saves, ...deletes].filter(mayDo);
  const isEmpty = page !== undefined && list.rows.length === 0 && list.newer === 0;
  useEffect(() => {
    pageOffers.value = offers;
  }, [offers.map((one) => one.act.name + one.act.label).join(), selection.runs.length, selection.isAll, q]);
  return (
    <>
      <div class="head runs-head">
        <h1>{words.nav.runs}</h1>
        <Views q={q} views={views} chosen={view} offers={[...saves, ...deletes].filter(mayDo)} />
        <div class="acts">
          <ColumnMenu
            columns={columns}
            runs={list.rows}
            onChange={(names) => {
              keptColumns.value = names.join() === DEFAULT.join() ? "" : names.join();
              visit({ columns: names.join(), cursor });
            }}
          />
          {starts.filter(mayDo).map((one) => (
            <ActButton key={one.act.name} offer={one} isPrimary />
          ))}
        </div>
      </div>
      <FilterBox
        filter={q}
        onChange={change}
        workflows={[...new Set(workflows?.map((one) => one.name))]}
        seen={list.rows}
        problem={isFilterWrong ? reading.problem.value : undefined}
        count={page ? <Count q={q} rows={list.rows.length} isWhole={page.next === null && !cursor} /> : ""}
      />
      {reading.problem.value && !isFilterWrong && !page && (
        <ProblemBox problem={reading.problem.value} again={() => reading.again()} />
      )}
      {!page && !reading.problem.value && <Skeleton rows={12} label={words.reading} />}
      {page && !cursor && !(isEmpty && !q) && !isFilterWrong && (
        <Histogram q={q} last={last} onLast={(one) => visit({ last: one === LAST ? undefined : one })} onRange={change} />
      )}
      {isEmpty && (q ? <NothingFound q={q} onChange={change} /> : <FirstRun />)}
      {page && !isEmpty && (
        <>
          <div class={`bleed runs-list ${columns.length > FITTING ? "scroll-x runs-wide" : ""}`} {...(columns.length > FITTING ? { tabIndex: 0, role: "region", "aria-label": words.nav.runs } : {})}>
            {list.newer > 0 && !cursor && (
              <button type="button" class="newrows" onClick={list.show}>
                {words.runs.newer(list.newer >= READ_MAX ? `${number(READ_MAX)}+` : number(list.newer), list.newer)}
              </button>
            )}
            {list.isOther && (
              <button type="button" class="newrows" onClick={list.show}>
                {words.runs.other}
              </button>
            )}
            <Table list={list} columns={columns} reasons={reasons} sort={sort} selection={selection} onSort={(one) => change(sortedBy(q, one))} />
          </div>
          <Foot cursor={cursor} newest={to("runs", { ...query, cursor: undefined })} older={page.next ? to("runs", { ...query, cursor: page.next }) : undefined} selection={selection} />
          <BulkBar q={q} selection={selection} offers={onMany.filter(mayDo)} />
        </>
      )}
    </>
  );
}

/** The filter and order of a saved view, as one line. */
export function whereOf(view: View): string {
  return sortedBy(view.filter, view.sort);
}

function chosenColumns(asked: string | undefined, view: View | undefined): Column[] {
  const names = asked ? asked.split(",") : view && view.columns.length > 0 ? view.columns : keptColumns.value ? keptColumns.value.split(",") : DEFAULT;
  const found = columnsOf(names);
  return found.length > 0 ? found : columnsOf(DEFAULT);
}

/** Why each run is where it is, as the server said last. */
function useReasons(runs: Run[] | undefined, reasons: Reason[] | undefined): Map<string, Reason> {
  const known = useRef(new Map<string, Reason>());
  return useMemo(() => {
    runs?.forEach((run, place) => {
      const one = reasons?.[place];
      if (one) known.current.set(run.run_id, one);
    });
    return known.current;
  }, [runs]);
}

function useBulkOffers(selection: Selection, where: string): Offer[] {
  if (selection.isAll) return bulkOffers({ runs: [], where, done: selection.clear });
  return selection.runs.length > 0 ? bulkOffers({ runs: selection.runs, where: null, done: selection.clear }) : [];
}

/** How many runs match. It is asked less often than the rows. */
function Count(props: { q: string; rows: number; isWhole: boolean }) {
  const q = sortedBy(props.q, "");
  const found = useReading(`runs count ${q}`, (signal) => read("/api/runs/count", { query: { q }, signal }), COUNT_EVERY_MS).data.value;
  if (props.isWhole) return <>{words.runs.found(number(props.rows), props.rows)}</>;
  if (!found) return <>{words.runs.newestOf(number(props.rows))}</>;
  return <>{words.runs.of(number(props.rows), number(found.runs) + (found.is_more ? "+" : ""))}</>;
}

function Views(props: { q: string; views: View[]; chosen: View | undefined; offers: Offer[] }) {
  const figures = useFigures().data.value;
  return (
    <nav class="views" aria-label={words.runs.views}>
      {VIEWS.map((view) => {
        const total = view.statuses.reduce((sum, status) => sum + (figures?.runs[status] ?? 0), 0);
        return (
          <a
            key={view.q}
            href={to("runs", { q: view.q })}
            aria-current={props.q === view.q && !props.chosen ? "page" : undefined}
            class={view.isAlarm && total > 0 ? "alarm" : ""}
          >
            {view.name} {figures && view.statuses.length > 0 && <span class="n">{number(total)}</span>}
          </a>
        );
      })}
      {props.views.map((view) => (
        <a
          key={`${view.name} ${view.owner ?? ""}`}
          class="saved"
          href={to("runs", { q: whereOf(view), view: view.name })}
          aria-current={view === props.chosen ? "page" : undefined}
          title={view.unreadable || [view.owner === null ? words.views.ofAll : words.views.own, whereOf(view)].join(": ")}
        >
          <bdi class="ell">{view.name}</bdi>
        </a>
      ))}
      {props.offers.map((one) => (
        <ActButton key={one.act.name} offer={one} isQuiet />
      ))}
    </nav>
  );
}

function ColumnMenu(props: { columns: Column[]; runs: Run[]; onChange: (names: string[]) => void }) {
  const names = props.columns.map((one) => one.name);
  return (
    <Menu
      class="columns"
      summary="btn quiet"
      label={words.columns.choose}
      button={
        <>
          <Icon name="columns" />
          {words.columns.choose}
        </>
      }
    >
      {choices(props.runs, names).map((one) => (
        <label key={one.name}>
          <input
            type="checkbox"
            checked={names.includes(one.name)}
            disabled={names.length === 1 && names.includes(one.name)}
            onChange={(event) => props.onChange(event.currentTarget.checked ? [...names, one.name] : names.filter((name) => name !== one.name))}
          />
          <bdi>{one.label}</bdi>
        </label>
      ))}
      <button type="button" onClick={() => props.onChange(DEFAULT)}>
        {words.columns.usual}
      </button>
    </Menu>
  );
}

/** An empty list says which part of the filter to drop. */
function NothingFound(props: { q: string; onChange: (q: string) => void }) {
  const terms = termsOf(props.q);
  return (
    <div class="empty">
      <h2>{words.runs.nothing}</h2>
      <p>
        <code>{props.q}</code> {words.runs.nothingWhy}
      </p>
      <div class="acts">
        {terms.length > 1 &&
          terms.slice(0, 4).map((term, place) => (
            <button
              type="button"
              class="btn"
              key={term.text}
              onClick={() => props.onChange(terms.filter((_, other) => other !== place).map((one) => one.text).join(" "))}
            >
              {words.runs.without} <code class="ell">{term.text}</code>
            </button>
          ))}
        <button type="button" class="btn" onClick={() => props.onChange("")}>
          {words.runs.showAll}
        </button>
      </div>
    </div>
  );
}

function Table(props: {
  list: Rows;
  columns: Column[];
  reasons: Map<string, Reason>;
  sort: string;
  selection: Selection;
  onSort: (sort: string) => void;
}) {
  const { rows } = props.list;
  const { selection } = props;
  const { route } = useLocation();
  const table = useRef<HTMLTableElement>(null);
  const links = () => [...(table.current?.querySelectorAll<HTMLAnchorElement>("tbody tr") ?? [])].map((row) => row.querySelector<HTMLElement>("a.id") ?? row.querySelector<HTMLElement>("input"));
  const here = () => links().findIndex((link) => link?.closest("tr")?.contains(document.activeElement));
  const move = (step: number) => {
    const all = links();
    all[Math.min(all.length - 1, Math.max(0, here() + step))]?.focus();
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    w: () => {
      const run = rows[here()];
      if (run) route(toRun(run.run_id));
    },
    x: () => {
      const run = rows[here()];
      if (run) selection.toggle(run);
    },
  });
  const isWide = props.columns.length > FITTING;
  const isWhole = rows.length > 0 && rows.every(selection.has);
  return (
    <table
      class="table cards"
      role="table"
      aria-label={words.nav.runs}
      ref={table}
      {...(isWide ? { style: { minInlineSize: `${(props.columns.length + 1) * COLUMN_REM}rem` } } : {})}
    >
      <colgroup>
        <col class="c-x" />
        {props.columns.map((one) => (
          <col key={one.name} class={one.size ?? (isWide ? "c-why" : "")} />
        ))}
      </colgroup>
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader">
            <input
              type="checkbox"
              aria-label={words.runs.selectPage}
              checked={isWhole}
              onChange={() => (selection.isAll ? selection.clear() : selection.toggleAll(rows))}
            />
          </th>
          {props.columns.map((one) => (
            <Head key={one.name} column={one} sort={props.sort} onSort={props.onSort} />
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((run) => (
          <RunRow
            key={run.run_id}
            run={run}
            columns={props.columns}
            reason={props.reasons.get(run.run_id)}
            hasLeft={props.list.hasLeft(run)}
            isSelected={selection.has(run)}
            onSelect={() => selection.toggle(run)}
          />
        ))}
      </tbody>
    </table>
  );
}

function Head(props: { column: Column; sort: string; onSort: (sort: string) => void }) {
  const { column, sort } = props;
  const classes = (column.cell ?? "").split(" ").filter((one) => one === "num" || one === "wf").join(" ");
  if (!column.sort)
    return (
      <th role="columnheader" class={classes}>
        <bdi>{column.label}</bdi>
      </th>
    );
  const order = sort === `-${column.sort}` ? "descending" : sort === column.sort ? "ascending" : undefined;
  const field = column.sort;
  return (
    <th role="columnheader" class={classes} aria-sort={order}>
      <button type="button" title={words.columns.sort} onClick={() => props.onSort(nextSort(sort, field))}>
        <bdi>{column.label}</bdi>
        {order && <Icon name={order === "descending" ? "down" : "up"} />}
      </button>
    </th>
  );
}

function RunRow(props: {
  run: Run;
  columns: Column[];
  reason: Reason | undefined;
  hasLeft: boolean;
  isSelected: boolean;
  onSelect: () => void;
}) {
  const { run } = props;
  return (
    <tr role="row" class={props.hasLeft ? "gone" : ""} aria-selected={props.isSelected ? "true" : undefined}>
      <td role="cell" class="hide-s">
        <input type="checkbox" aria-label={words.runs.select(run.key ?? run.run_id)} checked={props.isSelected} onChange={props.onSelect} />
      </td>
      {props.columns.map((one) => (
        <td role="cell" key={one.name} class={one.cell ?? ""}>
          {one.name === "status" && props.hasLeft ? <span class="st dim">{words.runs.left}</span> : one.show(run, props.reason)}
        </td>
      ))}
    </tr>
  );
}

/** What is selected, and what can be done to it. */
function BulkBar(props: { q: string; selection: Selection; offers: Offer[] }) {
  const { selection } = props;
  const count = useReading(
    `runs count ${sortedBy(props.q, "")}`,
    (signal) => read("/api/runs/count", { query: { q: sortedBy(props.q, "") }, signal }),
    COUNT_EVERY_MS,
  ).data.value;
  if (selection.runs.length === 0 && !selection.isAll) return null;
  const all = count ? number(count.runs) + (count.is_more ? "+" : "") : "";
  const plain = props.offers.filter((one) => !one.act.isDangerous);
  const dangerous = props.offers.filter((one) => one.act.isDangerous);
  return (
    <div class="bulk" role="region" aria-label={words.runs.selected}>
      <span>
        <b class="strong">{selection.isAll ? words.runs.allSelected(all) : words.runs.selectedCount(number(selection.runs.length))}</b>{" "}
        {!selection.isAll && (
          <span class="two">
            ·{" "}
            <button type="button" class="link" onClick={selection.selectAll}>
              {words.runs.selectAll(all)}
            </button>
          </span>
        )}
      </span>
      <div class="acts">
        {props.offers.length === 0 && <span class="dim">{words.runs.nothingFits}</span>}
        {plain.map((one, place) => (
          <ActButton key={one.act.name} offer={one} isPrimary={place === 0 && !selection.isAll} />
        ))}
        {plain.length > 0 && dangerous.length > 0 && <span class="sep" aria-hidden="true" />}
        {dangerous.map((one) => (
          <ActButton key={one.act.name} offer={one} />
        ))}
        <IconButton icon="x" label={words.runs.clear} onClick={selection.clear} />
      </div>
    </div>
  );
}

function Foot(props: { cursor: string | undefined; newest: string; older: string | undefined; selection: Selection }) {
  return (
    <div class="foot">
      <span class="keys">
        <kbd>j</kbd>
        <kbd>k</kbd> {words.keys.move} <kbd>x</kbd> {words.keys.select} <kbd>↵</kbd> {words.keys.open} <kbd>.</kbd> {words.keys.acts} <kbd>f</kbd>{" "}
        {words.keys.filter} <kbd>?</kbd> {words.keys.all}
      </span>
      {!props.selection.isAll && (
        <button type="button" class="link" onClick={props.selection.selectAll}>
          {words.runs.actOnAll}
        </button>
      )}
      <nav class="pager" aria-label={words.runs.pages}>
        {props.cursor && (
          <a class="btn sm" href={props.newest}>
            <Icon name="first" />
            {words.runs.newest}
          </a>
        )}
        {props.older && (
          <a class="btn sm" href={props.older}>
            {words.runs.older}
            <Icon name="right" />
          </a>
        )}
      </nav>
    </div>
  );
}
