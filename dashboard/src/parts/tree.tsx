// The steps of a run: a tree grid with one lane of a timeline in each row. One row can have the focus; few are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Entry, Wait } from "../api";
import { duration } from "../formats";
import { type Row, spanOf, type State, triesOf } from "../run/places";
import type { Scale } from "../run/scale";
import { words } from "../words";
import { Icon } from "./icon";
import type { IconName } from "./sprite";

const ROW_PX = 28;
/** So many rows are in the page before and after those that are seen, and so many at most altogether. */
const ROWS_BESIDE = 30;
const ROWS_MAX = 148;
const AXIS_PARTS = 6;

const LOOKS: Record<State, { icon: IconName; mark: string }> = {
  done: { icon: "s-completed", mark: "st-completed" },
  failed: { icon: "s-failed", mark: "st-failed" },
  waiting: { icon: "s-waiting", mark: "st-waiting" },
  retrying: { icon: "s-retrying", mark: "st-retrying" },
  undone: { icon: "s-undone", mark: "st-undone" },
  ended: { icon: "s-cancelled", mark: "st-cancelled" },
  running: { icon: "s-running", mark: "st-running" },
  none: { icon: "s-skipped", mark: "st-skipped" },
  unread: { icon: "more", mark: "st-pending" },
};

export function StepTree(props: {
  label: string;
  rows: Row[];
  scale: Scale;
  lastEnd: number;
  now: number;
  selected: string;
  onSelect: (row: Row) => void;
  onFold: (row: Row, isOpen: boolean) => void;
  onOpen: () => void;
  /** Rows that are seen and were not read. */
  onMissing: (rows: Row[]) => void;
}) {
  const { rows, selected } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const [first, last] = useWindow(body, rows.length);
  useEffect(() => {
    const missing = rows.slice(first, last).filter((row) => row.unread);
    if (missing.length > 0) props.onMissing(missing);
  }, [rows, first, last]);
  // A key may lead to a row that is not read yet: it has the focus until it is, and is selected then.
  const [ahead, setAhead] = useState<number | undefined>(undefined);
  const at = ahead ?? Math.max(0, rows.findIndex((row) => row.key === selected));
  const before = useRef(selected); // what was selected when the key was pressed
  // The row that gets the focus once it is selected: the page may be drawn in between.
  const wantsFocus = useRef<string | undefined>(undefined);
  useEffect(() => {
    const row = ahead === undefined ? undefined : rows[ahead];
    if (!row || row.unread) return;
    if (row.key === selected || selected !== before.current) {
      // Only now: until the selection has moved, a key begins at this row and not at the one before it.
      setAhead(undefined);
      return;
    }
    wantsFocus.current = row.key;
    props.onSelect(row);
  }, [rows, ahead, selected]);
  useEffect(() => {
    // The row may come into the page only after the page has been scrolled to it.
    if (wantsFocus.current === undefined || rows[at]?.key !== wantsFocus.current || at < first || at >= last) return;
    wantsFocus.current = undefined;
    const row = body.current?.querySelector<HTMLElement>('tr[tabindex="0"]');
    row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  });
  const go = (index: number) => {
    const next = Math.min(rows.length - 1, Math.max(0, index));
    const row = rows[next];
    if (!row) return;
    wantsFocus.current = row.key;
    scrollToRow(body.current, next);
    before.current = selected;
    if (row.unread) setAhead(next);
    else {
      setAhead(undefined);
      props.onSelect(row);
    }
  };
  const pressed = (event: KeyboardEvent) => {
    const row = rows[at];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    switch (event.key) {
      case "ArrowDown":
      case "j":
        go(at + 1);
        break;
      case "ArrowUp":
      case "k":
        go(at - 1);
        break;
      case "Home":
        go(0);
        break;
      case "End":
        go(rows.length - 1);
        break;
      case "ArrowRight":
        if (row.hasBelow && !row.isOpen) props.onFold(row, true);
        else go(at + 1);
        break;
      case "ArrowLeft":
        if (row.isOpen) props.onFold(row, false);
        else go(parentOf(rows, at));
        break;
      case "Enter":
        props.onOpen();
        break;
      default:
        return;
    }
    event.preventDefault();
  };
  const shown = rows.slice(first, last);
  const tabStop = shown.some((row) => row.key === rows[at]?.key) ? rows[at]?.key : shown[0]?.key;
  return (
    <table class="tree" role="treegrid" aria-label={props.label} aria-rowcount={rows.length + 1}>
      <colgroup>
        <col class="c-step" />
        <col class="c-try" />
        <col class="c-dur" />
        <col />
      </colgroup>
      <thead>
        <tr role="row" aria-rowindex={1}>
          <th role="columnheader">{words.tree.step}</th>
          <th role="columnheader" class="num try">
            {words.tree.tries}
          </th>
          <th role="columnheader" class="num dur">
            {words.tree.took}
          </th>
          <th role="columnheader" class="line">
            <Axis scale={props.scale} />
          </th>
        </tr>
      </thead>
      <tbody ref={body} onKeyDown={pressed}>
        {first > 0 && <Spacer rows={first} />}
        {shown.map((row, index) => (
          <tr
            key={row.key}
            role="row"
            aria-level={Math.min(row.level, 9)}
            aria-posinset={row.position}
            aria-setsize={row.siblings}
            aria-busy={row.unread ? true : undefined}
            aria-expanded={row.hasBelow ? row.isOpen : undefined}
            aria-selected={row.key === selected}
            aria-rowindex={first + index + 2}
            tabIndex={row.key === tabStop ? 0 : -1}
            onClick={() => {
              setAhead(undefined);
              if (!row.unread) props.onSelect(row);
            }}
          >
            <td role="gridcell" class="step">
              <span class="step-in">
                {row.hasBelow ? (
                  <button
                    type="button"
                    class="twist"
                    tabIndex={-1}
                    aria-label={row.isOpen ? words.tree.close(row.name) : words.tree.open(row.name)}
                    onClick={(event) => {
                      event.stopPropagation();
                      props.onFold(row, !row.isOpen);
                    }}
                  >
                    <Icon name="right" />
                  </button>
                ) : (
                  <span class="no-twist" />
                )}
                <span class={`st ${LOOKS[row.state].mark}`}>
                  <Icon name={LOOKS[row.state].icon} />
                  <span class="vh">{words.tree.states[row.state]}</span>
                </span>
                <span class="name">
                  <bdi>{row.name}</bdi>
                </span>
                {!row.unread && <Note row={row} />}
              </span>
            </td>
            <td role="gridcell" class="num try">
              {triesOf(row)}
            </td>
            <td role="gridcell" class="num dur">
              {row.span && (row.entry || row.hasBelow || row.isUndo) ? duration(row.span[1] - row.span[0]) : ""}
            </td>
            <td role="gridcell" class="line">
              {row.unread ? <span class="lane" /> : <Lane row={row} scale={props.scale} lastEnd={props.lastEnd} now={props.now} />}
            </td>
          </tr>
        ))}
        {last < rows.length && <Spacer rows={rows.length - last} />}
      </tbody>
    </table>
  );
}

function Note(props: { row: Row }) {
  const { row } = props;
  if (row.entry?.failure) return <span class="bad-text small ell">{row.entry.failure.type}</span>;
  const wait = row.waits[0];
  const note = wait ? words.waits(wait.kind, wait.names) : row.note || (row.entry && words.kinds[row.entry.kind]) || "";
  return note ? <span class="note">{note}</span> : null;
}

function parentOf(rows: Row[], at: number): number {
  const level = rows[at]?.level ?? 1;
  for (let index = at - 1; index >= 0; index -= 1) if ((rows[index]?.level ?? 0) < level) return index;
  return at;
}

function Spacer(props: { rows: number }) {
  return (
    <tr aria-hidden="true">
      <td colSpan={4} style={{ height: `${props.rows * ROW_PX}px`, padding: 0 }} />
    </tr>
  );
}

/** Which rows are near what is seen of the page. All of them, if there are few. */
function useWindow(body: { current: HTMLElement | null }, count: number): [number, number] {
  const [first, setFirst] = useState(0);
  const shown = Math.min(ROWS_MAX, Math.ceil(innerHeight / ROW_PX) + 2 * ROWS_BESIDE);
  useEffect(() => {
    if (count <= shown) return;
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const seen = Math.floor(Math.max(0, -top) / ROW_PX);
      const wanted = Math.max(0, Math.min(count - shown, seen - ROWS_BESIDE));
      setFirst((before) => (Math.abs(before - wanted) < ROWS_BESIDE / 3 && before + shown <= count && wanted > 0 ? before : wanted));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [count, shown]);
  return count <= shown ? [0, count] : [Math.min(first, count - shown), Math.min(count, first + shown)];
}

function scrollToRow(body: HTMLElement | null, index: number): void {
  if (!body) return;
  const top = body.getBoundingClientRect().top + index * ROW_PX;
  if (top < 100 || top > innerHeight - 60) scrollBy(0, top - innerHeight / 2);
}

function Axis(props: { scale: Scale }) {
  const { scale } = props;
  const ticks = Array.from({ length: AXIS_PARTS }, (_, part) => scale.at((100 * part) / AXIS_PARTS) - scale.from);
  return (
    <span class="axis6">
      {ticks.map((ms, part) => (
        <span key={part}>{part === 0 ? "0" : offset(ms)}</span>
      ))}
    </span>
  );
}

/** The time since the start, in as few characters as its place has. */
function offset(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : duration(ms).split(" ").slice(0, 2).join(" ");
}

function Lane(props: { row: Row; scale: Scale; lastEnd: number; now: number }) {
  const { row, scale } = props;
  const bars = useMemo(() => barsOf(row, scale, props.lastEnd, props.now), [row, scale, props.lastEnd, props.now]);
  const took = row.span ? duration(row.span[1] - row.span[0]) : "";
  return (
    <span class="lane">
      <svg role="img" aria-label={words.tree.bar(row.path || row.name, words.tree.states[row.state], took)}>
        {bars}
        {scale.folds.map((x) => (
          <Fold key={x} x={x} />
        ))}
      </svg>
    </span>
  );
}

function Fold(props: { x: number }) {
  return (
    <svg x={`${props.x}%`} width="1" height="28" overflow="visible" aria-hidden="true">
      <path class="gap" d="M-4 0h8v28h-8z" />
      <path class="gap-edge" d="M-4 20l3-12M1 20l3-12" />
    </svg>
  );
}

const WAIT_KINDS = new Set(["sleep", "receive", "receive_many", "topic", "wait_any", "child"]);

function barsOf(row: Row, scale: Scale, lastEnd: number, now: number): ComponentChildren {
  if (row.marks.length > 0) return row.marks.map((entry) => <Bar key={entry.seq} span={spanOf(entry)} scale={scale} class={markOf(entry)} />);
  if (row.entry && !row.hasBelow) return entryBars(row.entry, scale, row.isUndo);
  if (row.waits.length > 0) return row.waits.map((wait, number) => waitBars(wait, number, scale, lastEnd, now, row.isUndo));
  if (!row.span) return null;
  const [x1, x2] = [scale.x(row.span[0]), Math.max(scale.x(row.span[1]), scale.x(row.span[0]) + 0.4)];
  const tone = row.isUndo ? "undo" : row.state === "failed" ? "bad" : row.state === "waiting" ? "wait" : "";
  return (
    <g class={`bar-group ${tone}`}>
      <line x1={`${x1}%`} x2={`${x2}%`} y1="14" y2="14" />
      <line x1={`${x1}%`} x2={`${x1}%`} y1="10" y2="18" />
      <line x1={`${x2}%`} x2={`${x2}%`} y1="10" y2="18" />
    </g>
  );
}

function markOf(entry: Entry): string {
  return entry.status === "failed" ? "f-bad" : entry.failed_attempts.length > 0 ? "f-warn" : "h-3";
}

/** The attempts of a step, with the time between them hatched; or what a wait took, outlined. */
function entryBars(entry: Entry, scale: Scale, isUndoing: boolean): ComponentChildren {
  const [from, until] = spanOf(entry);
  if (WAIT_KINDS.has(entry.kind) && entry.status !== "failed")
    return <Bar span={[from, until]} scale={scale} class="bar-wait" />;
  const tone = isUndoing ? "undo" : "bad";
  const parts: ComponentChildren[] = [];
  let start = from;
  for (const attempt of entry.failed_attempts) {
    const end = Date.parse(attempt.at);
    if (end >= until && entry.status === "failed") break;
    parts.push(<Bar key={`a${attempt.number}`} span={[start, end]} scale={scale} class={isUndoing ? "f-undo" : "f-bad"} />);
    start = attempt.next_at ? Date.parse(attempt.next_at) : end;
    parts.push(<Bar key={`h${attempt.number}`} span={[end, start]} scale={scale} hatch={tone} />);
  }
  const last = isUndoing ? "f-undo" : entry.status === "failed" ? "f-bad" : "f-done";
  return [...parts, <Bar key="last" span={[start, until]} scale={scale} class={last} />];
}

function waitBars(wait: Wait, number: number, scale: Scale, lastEnd: number, now: number, isUndoing: boolean): ComponentChildren {
  if (wait.failed_attempts.length === 0) return <Bar key={number} span={[lastEnd, now]} scale={scale} class="bar-wait" />;
  const tone = isUndoing ? "undo" : "warn";
  return wait.failed_attempts.map((attempt) => {
    const end = Date.parse(attempt.at);
    const next = attempt.next_at ? Date.parse(attempt.next_at) : now;
    return (
      <g key={attempt.number}>
        <Bar span={[end - 1, end]} scale={scale} class={isUndoing ? "f-undo" : "f-bad"} />
        <Bar span={[end, Math.min(next, now)]} scale={scale} hatch={tone} />
      </g>
    );
  });
}

function Bar(props: { span: [number, number]; scale: Scale; class?: string; hatch?: string }) {
  const x = props.scale.x(props.span[0]);
  const width = Math.max(props.hatch ? 0 : 0.35, props.scale.x(props.span[1]) - x);
  const given = { x: `${Math.min(x, 99.65)}%`, width: `${width}%` };
  if (props.hatch) return <rect {...given} y="9" height="10" fill={`url(#hatch-${props.hatch})`} />;
  return <rect {...given} y="9" height="10" rx="2" class={props.class} />;
}
