// The steps of a run with their times, and beside them what is known of the selected one.

import { useLocation } from "preact-iso";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { RunTarget } from "../acts/runs";
import { seconds } from "../clock";
import { duration } from "../formats";
import { useKeys } from "../keys";
import { CopyButton } from "../parts/copy";
import { FailureBox } from "../parts/failure";
import { Icon, IconButton } from "../parts/icon";
import { Json } from "../parts/json";
import { None } from "../parts/states";
import { FullTime } from "../parts/time";
import { StepTree } from "../parts/tree";
import { toRun } from "../place";
import { isEnded, originOf } from "../statuses";
import { size } from "../formats";
import { words } from "../words";
import { type Row, rowsOf, spanOf } from "./places";
import type { RunRecord } from "./record";
import { scaleOf } from "./scale";

export function TimelineTab(props: { record: RunRecord; selected: string; target: RunTarget }) {
  const { record } = props;
  const { run, entries, waits } = record;
  const { route } = useLocation();
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [folds, setFolds] = useState(true);
  const [isClosed, setClosed] = useState(false);
  // A run that moves is drawn up to now, once a second.
  const now = isEnded(run) ? 0 : seconds.value * 1_000;
  const tree = useMemo(() => rowsOf(run, entries, waits, opened, now), [run, entries, waits, opened, now]);
  const scale = useMemo(() => {
    const spans = entries.map(spanOf);
    const from = run.started_at ? Date.parse(run.started_at) : Math.min(...spans.map((span) => span[0]), Date.parse(run.created_at));
    const until = run.ended_at ? Date.parse(run.ended_at) : Math.max(now, ...spans.slice(-1).map((span) => span[1]));
    return scaleOf(spans, from, until, folds);
  }, [run, entries, folds, now]);
  const lastEnd = useMemo(() => entries.reduce((last, entry) => Math.max(last, Date.parse(entry.at)), scale.from), [entries, scale.from]);
  const failedAt = run.failure ? originOf(run.failure).path : "";
  const first = tree.rows.find((row) => row.path === failedAt && failedAt)?.key ?? tree.rows.find((row) => row.waits.length > 0)?.key ?? "/";
  const selected = props.selected || first;
  const row = tree.rows.find((one) => one.key === selected) ?? tree.rows[0];
  const select = (one: Row) => {
    setClosed(false);
    route(toRun(run.run_id, { at: one.key }), true);
  };
  const step = (by: number) => {
    const at = tree.failures.indexOf(selected);
    const next = tree.failures[(at + by + tree.failures.length) % Math.max(1, tree.failures.length)];
    const found = tree.rows.find((one) => one.key === next);
    if (found) select(found);
  };
  useKeys({ n: () => step(1), p: () => step(-1) });
  useEffect(() => setClosed(false), [selected]);
  if (entries.length === 0 && waits.length === 0) return <None>{words.timeline.nothing}</None>;
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
          rows={tree.rows}
          scale={scale}
          lastEnd={lastEnd}
          now={now || lastEnd}
          selected={selected}
          onSelect={select}
          onFold={(one, isOpen) => setOpened((before) => new Map(before).set(one.key, isOpen))}
          onOpen={() => {
            setClosed(false);
            document.getElementById("step-panel")?.focus();
          }}
        />
        <div class="tree-foot">
          <span>{sums(record, scale.until - scale.from)}</span>
          {scale.isFolded && <span>{words.timeline.folded}</span>}
        </div>
      </div>
      {!isClosed && row && <StepPanel record={record} row={row} target={props.target} onClose={() => setClosed(true)} />}
    </div>
  );
}

/** How much of the time of a run was work. */
function sums(record: RunRecord, whole: number): string {
  const work = record.entries.filter((entry) => entry.kind === "step" || entry.kind === "once" || entry.kind === "undo");
  const busy = work.reduce((sum, entry) => sum + entry.took * 1_000, 0);
  return words.timeline.sums(duration(whole), duration(busy), work.length);
}

function StepPanel(props: { record: RunRecord; row: Row; target: RunTarget; onClose: () => void }) {
  const { row, record } = props;
  const { entry } = row;
  const { run } = record;
  const said = words.step;
  const progress = record.progress.find((one) => one.path === row.path);
  const isStopped = row.path !== "" && run.failure?.path === row.path;
  const failure = entry?.failure ?? (row.key === "/" || isStopped ? run.failure : null);
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
        {row.key === "/" && (
          <>
            <dt>{said.entries}</dt>
            <dd>{record.entries.length}</dd>
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
            <Json value={entry.value} label={said.result} />
          </details>
        </div>
      )}
    </aside>
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
