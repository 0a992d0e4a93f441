// The steps of a run with their times, and beside them what is known of the selected one.

import { useLocation } from "preact-iso";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Entry, read } from "../api";
import { seconds } from "../clock";
import { duration, number, size } from "../formats";
import { useKeys } from "../keys";
import { useReading } from "../live";
import { CopyButton } from "../parts/copy";
import { FailureBox } from "../parts/failure";
import { Icon, IconButton } from "../parts/icon";
import { Json } from "../parts/json";
import { None, Skeleton } from "../parts/states";
import { FullTime } from "../parts/time";
import { StepTree } from "../parts/tree";
import { toRun } from "../place";
import { isEnded, originOf } from "../statuses";
import { words } from "../words";
import { busySpans, everyPlace, isWhole, type Place, type Row, rowsOf } from "./places";
import { PublishedState } from "./published-tab";
import { pageAt, type RunRecord, type RunTree, useWay } from "./record";
import { scaleOf } from "./scale";

export function TimelineTab(props: { record: RunRecord; selected: string; then: number | undefined; past: RunTree | undefined }) {
  const { record, past } = props;
  const { run } = record;
  const { route } = useLocation();
  const tree = past ?? record.tree;
  useWay(tree, props.selected || (past || !run.failure ? "" : originOf(run.failure).path));
  return (
    <>
      {record.tree && <Travel record={record} now={record.tree} then={props.then} past={past} selected={props.selected} />}
      {!tree ? (
        <Skeleton rows={8} label={words.reading} />
      ) : tree.root.below.length === 0 && !run.failure ? (
        <None>{past ? words.timeline.nothingThen : words.timeline.nothing}</None>
      ) : (
        <Steps
          record={record}
          tree={tree}
          isPast={past !== undefined}
          selected={props.selected}
          onSelect={(key) => route(toRun(run.run_id, { at: key, then: past && String(past.body.at) }), true)}
        />
      )}
    </>
  );
}

const SETTLE_MS = 120;

/** The slider over the history. The page follows once it rests. */
function Travel(props: { record: RunRecord; now: RunTree; then: number | undefined; past: RunTree | undefined; selected: string }) {
  const { run } = props.record;
  const { route } = useLocation();
  const said = words.travel;
  const { last } = props.now.body;
  const [held, setHeld] = useState<number | undefined>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const at = Math.min(last, held ?? props.then ?? last);
  const go = (seq: number) => {
    const next = Math.min(last, Math.max(0, seq));
    setHeld(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      route(toRun(run.run_id, { at: props.selected, then: next < last ? String(next) : undefined }), true);
      setHeld(undefined);
    }, SETTLE_MS);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  if (last === 0) return null;
  const isNow = at === last;
  const moment = props.past && props.past.body.at === at ? props.past.body.moment : undefined;
  const text = said.entry(number(at), number(last));
  return (
    <div class={`travel ${isNow ? "" : "past"}`} role="group" aria-label={said.label}>
      <div class="row tight">
        <IconButton small icon="first" label={said.first} disabled={at === 0} onClick={() => go(0)} />
        <IconButton small icon="left" label={said.before} disabled={at === 0} onClick={() => go(at - 1)} />
        <IconButton small icon="right" label={said.after} disabled={isNow} onClick={() => go(at + 1)} />
        <IconButton small icon="last" label={said.last} disabled={isNow} onClick={() => go(last)} />
      </div>
      <input
        type="range"
        min={0}
        max={last}
        value={at}
        aria-label={said.slider}
        aria-valuetext={text}
        onInput={(event) => go(Number(event.currentTarget.value))}
      />
      <div class="past-note">
        <output>
          {!isNow && <Icon name="s-timed_out" class="warn-text" />}
          <span>
            {text} · {isNow ? said.now : moment && <FullTime at={moment} exact />}
          </span>
        </output>
        {!isNow && (
          <button type="button" class="btn sm" onClick={() => go(last)}>
            {said.back}
          </button>
        )}
      </div>
    </div>
  );
}

function Steps(props: { record: RunRecord; tree: RunTree; isPast: boolean; selected: string; onSelect: (key: string) => void }) {
  const { record, tree, isPast } = props;
  const { run } = record;
  const { root, body } = tree;
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [folds, setFolds] = useState(true);
  const [isClosed, setClosed] = useState(false);
  const then = isPast ? Date.parse(body.moment) : undefined;
  // A run that moves is drawn up to now, once a second.
  const now = then ?? (isEnded(run) ? 0 : seconds.value * 1_000);
  const { rows, failures } = useMemo(() => rowsOf(run, root, opened, now, then), [run, root, opened, now, then]);
  const scale = useMemo(() => {
    const spans = busySpans(root);
    const starts = spans.map((span) => span[0]);
    const ends = spans.map((span) => span[1]);
    const from = run.started_at ? Date.parse(run.started_at) : Math.min(...starts, Date.parse(run.created_at));
    const until = then ?? (run.ended_at ? Date.parse(run.ended_at) : Math.max(now, ...ends));
    return scaleOf(spans, from, until, folds);
  }, [run, root, folds, now, then]);
  const lastEnd = root.node.ended_at ? Date.parse(root.node.ended_at) : scale.from;
  const failedAt = run.failure && !isPast ? originOf(run.failure).path : "";
  const moving = rows.find((row) => row.waits.length > 0 || (isPast && row.node?.open_since));
  const first = rows.find((row) => row.path === failedAt && failedAt)?.key ?? moving?.key ?? "/";
  const selected = rows.some((row) => row.key === props.selected) ? props.selected : first;
  const row = rows.find((one) => one.key === selected) ?? rows[0];
  const select = (one: Row) => {
    setClosed(false);
    props.onSelect(one.key);
  };
  const step = (by: number) => {
    const at = failures.indexOf(selected);
    const next = failures[(at + by + failures.length) % Math.max(1, failures.length)];
    const found = rows.find((one) => one.key === next);
    if (found) select(found);
  };
  useKeys({ n: () => step(1), p: () => step(-1) });
  useEffect(() => setClosed(false), [selected]);
  return (
    <div class={`split ${isClosed ? "alone" : ""}`}>
      <div>
        <div class="tools">
          <label>
            <input type="checkbox" checked={folds} onChange={(event) => setFolds(event.currentTarget.checked)} />
            {words.timeline.hideIdle}
          </label>
          <span class="end" />
          <span class="key">{words.timeline.work}</span>
          <span class="key bad">{words.timeline.failed}</span>
          <span class="key wait">{words.timeline.waiting}</span>
          <span class="key undo">{words.timeline.undo}</span>
          <span class="key off">{words.timeline.backOff}</span>
        </div>
        <StepTree
          label={words.timeline.label(run.key ?? run.run_id)}
          rows={rows}
          scale={scale}
          lastEnd={lastEnd}
          now={now || lastEnd}
          selected={selected}
          onSelect={select}
          onFold={(one, isOpen) => {
            setOpened((before) => new Map(before).set(one.key, isOpen));
            if (isOpen && one.node && one.node.below.length === 0) tree.want([pageAt(one.path, 0)]);
          }}
          onOpen={() => {
            setClosed(false);
            document.getElementById("step-panel")?.focus();
          }}
          onMissing={(missing) => tree.want(missing.flatMap((one) => (one.unread ? [pageAt(one.unread.under, one.unread.number)] : [])))}
        />
        <div class="tree-foot">
          <span>{sums(root, scale.until - scale.from)}</span>
          {scale.isFolded && <span>{words.timeline.folded}</span>}
          {isPast && <span>{words.travel.off}</span>}
        </div>
      </div>
      {!isClosed && row && <StepPanel record={record} tree={tree} isPast={isPast} row={row} onClose={() => setClosed(true)} />}
    </div>
  );
}

/** How much of the time of a run was work; of a run that was not read wholly, how many lines it has. */
function sums(root: Place, whole: number): string {
  if (!isWhole(root)) return words.timeline.lines(duration(whole), number(root.node.count));
  const entries = everyPlace(root).flatMap((one) => one.node.entry ?? []);
  const work = entries.filter((entry) => entry.kind === "step" || entry.kind === "once" || entry.kind === "undo");
  const busy = work.reduce((sum, entry) => sum + entry.took * 1_000, 0);
  return words.timeline.sums(duration(whole), duration(busy), work.length);
}

function StepPanel(props: { record: RunRecord; tree: RunTree; isPast: boolean; row: Row; onClose: () => void }) {
  const { row, record, isPast } = props;
  const { run } = record;
  const said = words.step;
  const entry = useWholeEntry(run.run_id, row);
  const progress = isPast ? undefined : record.progress.find((one) => one.path === row.path);
  const isStopped = row.path !== "" && run.failure?.path === row.path;
  const failure = entry?.failure ?? (!isPast && (row.key === "/" || isStopped) ? run.failure : null);
  return (
    <aside class="panel" id="step-panel" aria-label={said.label} tabIndex={-1}>
      <header>
        <h2>
          <bdi>{row.key === "/" ? run.workflow : row.path || row.name}</bdi>
        </h2>
        {row.path && <CopyButton text={row.path} label={said.copyPath} />}
        <IconButton small class="end" icon="x" label={said.close} onClick={props.onClose} />
      </header>
      <dl class="kv small pad-y">
        {entry && (
          <>
            <dt>{said.kind}</dt>
            <dd>{words.kinds[entry.kind] ?? entry.kind}</dd>
            <dt>{said.ended}</dt>
            <dd>
              <FullTime at={entry.at} exact />
            </dd>
            <dt>{said.took}</dt>
            <dd>{duration(entry.took * 1_000)}</dd>
            {entry.attempts > 0 && (
              <>
                <dt>{said.attempts}</dt>
                <dd>{entry.attempts}</dd>
              </>
            )}
            {(entry.kind === "step" || entry.kind === "once") && (
              <>
                <dt>{said.key}</dt>
                <dd class="mono">{`${run.run_id}:${entry.path}`}</dd>
              </>
            )}
            <dt>{said.undo}</dt>
            <dd>{entry.is_undone ? said.undone : entry.can_undo ? said.canUndo : said.noUndo}</dd>
            <dt>{said.entry}</dt>
            <dd>
              <a href={toRun(run.run_id, { tab: "history", entry: String(entry.seq) })}>{entry.seq}</a>
            </dd>
          </>
        )}
        {row.waits.map((wait) => (
          <>
            <dt>{said.waitsFor}</dt>
            <dd>{words.waits(wait.kind, wait.names)}</dd>
            {wait.due_at && (
              <>
                <dt>{said.until}</dt>
                <dd>
                  <FullTime at={wait.due_at} />
                </dd>
              </>
            )}
            {wait.where.length > 0 && (
              <>
                <dt>{said.where}</dt>
                <dd class="mono">{wait.where.join(", ")}</dd>
              </>
            )}
          </>
        ))}
        {row.node?.open_since && (
          <>
            <dt>{said.openSince}</dt>
            <dd>
              <FullTime at={row.node.open_since} exact />
            </dd>
          </>
        )}
        {row.node && row.hasBelow && (
          <>
            <dt>{said.entries}</dt>
            <dd>{number(row.node.count)}</dd>
          </>
        )}
        {progress && (
          <>
            <dt>{said.progress}</dt>
            <dd>
              {progress.total
                ? said.progressOf(progress.done ?? 0, progress.total, progress.unit)
                : said.progressOn(progress.done ?? 0, progress.unit)}{" "}
              {progress.note}
            </dd>
          </>
        )}
      </dl>
      <Attempts row={row} />
      {failure && <FailureBox failure={failure} />}
      {entry?.unreadable && <p class="error">{entry.unreadable}</p>}
      {entry && !failure && (
        <div class="folds">
          <details class="fold" open>
            <summary>
              <Icon name="right" />
              {said.result} <span class="dim">{entry.value === null ? said.nothing : size(entry.value)}</span>
            </summary>
            {row.node?.omitted && entry === row.entry ? (
              <p class="none">{words.reading}</p>
            ) : (
              <Json value={entry.value} label={said.result} />
            )}
          </details>
        </div>
      )}
      {isPast && <Then tree={props.tree} />}
      {!isPast && row.key === "/" && <PublishedState published={props.tree.body.published} />}
    </aside>
  );
}

/** The line of a row; a long value was left out of the tree, and is read when it is shown. */
function useWholeEntry(run: string, row: Row): Entry | undefined {
  const seq = row.node?.omitted && row.entry ? row.entry.seq : undefined;
  const reading = useReading(
    `run-entry ${run} ${seq ?? ""}`,
    async (signal) => (seq === undefined ? undefined : read("/api/runs/{run}/history/{seq}", { parts: { run, seq: String(seq) }, signal })),
    600_000,
  );
  return reading.data.value ?? row.entry;
}

/** What else is known of the run at that time. */
function Then(props: { tree: RunTree }) {
  const said = words.travel;
  const { root, body } = props.tree;
  const places = everyPlace(root);
  const open = places.filter((place) => place.node.open_since);
  const stack = places
    .flatMap((place) => (place.node.entry?.can_undo && !place.node.entry.is_undone ? [place.node.entry] : []))
    .sort((one, other) => other.seq - one.seq);
  return (
    <>
      <h3>{said.open}</h3>
      {open.length === 0 ? <None>{said.noneOpen}</None> : <Paths paths={open.map((place) => place.node.path)} />}
      <PublishedState published={body.published} title={said.published} none={said.nonePublished} />
      {isWhole(root) && (
        <>
          <h3>{said.undo}</h3>
          {stack.length === 0 ? <None>{said.noUndo}</None> : <Paths paths={stack.map((entry) => entry.path)} />}
        </>
      )}
    </>
  );
}

const PATHS_MAX = 20;

function Paths(props: { paths: string[] }) {
  return (
    <ul class="bullets">
      {props.paths.slice(0, PATHS_MAX).map((path) => (
        <li key={path}>
          <code>
            <bdi>{path}</bdi>
          </code>
        </li>
      ))}
      {props.paths.length > PATHS_MAX && <li class="dim">{words.why.more(props.paths.length - PATHS_MAX)}</li>}
    </ul>
  );
}

/** The attempts that failed, each with its error and what came after it. */
function Attempts(props: { row: Row }) {
  const attempts = [...(props.row.entry?.failed_attempts ?? []), ...props.row.waits.flatMap((wait) => wait.failed_attempts)];
  if (attempts.length === 0) return null;
  return (
    <>
      <h3>{words.step.failedAttempts}</h3>
      <ol class="attempts">
        {attempts.map((attempt) => (
          <li key={attempt.number}>
            <span class="st st-failed">
              <Icon name="s-failed" />
              {attempt.number}
            </span>
            <div>
              <p class="clip">
                <bdi>{attempt.error}</bdi>
              </p>
              <p class="dim small">
                <FullTime at={attempt.at} exact isBare />
                {attempt.next_at && (
                  <>
                    {" "}
                    · {words.step.next(duration(Date.parse(attempt.next_at) - Date.parse(attempt.at)))}
                  </>
                )}
              </p>
            </div>
          </li>
        ))}
      </ol>
    </>
  );
}
