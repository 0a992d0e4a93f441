// The history: every entry in the order of its commit. It is only added to.

import { useLocation } from "preact-iso";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Entry, read } from "../api";
import { duration, number } from "../formats";
import { useKeys } from "../keys";
import { useReading } from "../live";
import { CopyButton } from "../parts/copy";
import { FailureBox } from "../parts/failure";
import { Icon, IconButton } from "../parts/icon";
import { isHidden, Json } from "../parts/json";
import type { IconName } from "../parts/sprite";
import { ProblemBox } from "../parts/problem";
import { None, Skeleton } from "../parts/states";
import { FullTime } from "../parts/time";
import { root, toRun } from "../place";
import { summaryOf } from "../statuses";
import { words } from "../words";
import { isUndo } from "./places";
import type { RunRecord } from "./record";

const SHOWN = 120;
const SETTLE_MS = 200;

export function HistoryTab(props: { record: RunRecord; at: string }) {
  const { run, tree } = props.record;
  const { route } = useLocation();
  const [wanted, setWanted] = useState("");
  const [asked, setAsked] = useState("");
  const [after, setAfter] = useState(() => startOf(props.at));
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const reading = useReading(
    `run-lines ${run.run_id} ${after} ${asked}`,
    (signal) => read("/api/runs/{run}/history", { parts: { run: run.run_id }, query: { after, limit: SHOWN, text: asked }, signal }),
    4_000,
    { run: run.run_id },
  );
  const found = reading.data.value;
  const last = useRef(found);
  // The page before stays until the next one is read.
  if (found) last.current = found;
  const page = last.current?.entries ?? [];
  const all = tree?.root.node.count ?? page.length;
  const chosenHere = page.find((entry) => String(entry.seq) === props.at);
  const chosen = useEntry(run.run_id, props.at, chosenHere);
  // The pages before this one: their lines need not follow each other.
  const before = useRef<number[]>([]);
  const start = Date.parse(run.started_at ?? run.created_at);
  const choose = (entry: Entry | undefined) =>
    route(toRun(run.run_id, { tab: "history", entry: entry && String(entry.seq) }), true);
  const move = (step: number) => {
    const at = chosenHere ? page.indexOf(chosenHere) : -1;
    choose(page[Math.min(page.length - 1, Math.max(0, at + step))]);
  };
  const filter = (text: string) => {
    setWanted(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setAsked(text.trim());
      setAfter(0);
    }, SETTLE_MS);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  useKeys({ f: () => input.current?.focus(), j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
  if (reading.problem.value && !found) return <ProblemBox problem={reading.problem.value} again={() => reading.again()} />;
  if (!last.current) return <Skeleton rows={8} label={words.reading} />;
  if (page.length === 0 && asked === "" && after === 0) return <None>{words.timeline.nothing}</None>;
  const said = words.history;
  return (
    <div class={`split ${chosen ? "" : "alone"}`}>
      <div>
        <div class="hist-tools">
          <div class="filter" role="search">
            <Icon name="search" />
            <input
              ref={input}
              value={wanted}
              aria-label={said.filter}
              placeholder={said.filterHint}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => filter(event.currentTarget.value)}
            />
            <span class="count">{said.count(number(last.current.matching ?? all), number(all))}</span>
          </div>
        </div>
        <div class="scroll-x" tabIndex={0} role="region" aria-label={said.label}>
          {page.length === 0 && <None>{said.nothing}</None>}
          <table class="table hist" aria-label={said.label} aria-rowcount={(last.current.matching ?? all) + 1}>
            <colgroup>
              <col class="h-n" />
              <col class="h-t" />
              <col class="h-kind" />
              <col class="h-path" />
              <col />
            </colgroup>
            <thead>
              <tr>
                <th class="num">{said.entry}</th>
                <th class="num">{said.at}</th>
                <th>{said.what}</th>
                <th>{said.path}</th>
                <th>{said.with}</th>
              </tr>
            </thead>
            <tbody>
              {page.map((entry) => (
                <tr key={entry.seq} aria-selected={String(entry.seq) === props.at} onClick={() => choose(entry)}>
                  <td class="num dim">
                    <a class="dim" href={toRun(run.run_id, { tab: "history", entry: String(entry.seq) })}>
                      {number(entry.seq)}
                    </a>
                  </td>
                  <td class="num two">+{duration(Date.parse(entry.at) - start)}</td>
                  <td>
                    <span class={`st ${lookOf(entry).mark}`}>
                      <Icon name={lookOf(entry).icon} />
                      {words.entryWords(entry.kind, entry.status)}
                    </span>
                  </td>
                  <td class="path ell">
                    <bdi>{entry.path}</bdi>
                  </td>
                  <td class={`ell two ${entry.status === "failed" ? "bad-text" : ""}`}>
                    <bdi>{withWhat(entry)}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div class="tree-foot">
          <span>{said.appendOnly}</span>
          {(after > 0 || last.current.next !== null) && (
            <span class="pager">
              {page.length > 0 && said.range(number(page[0]?.seq ?? 0), number(page.at(-1)?.seq ?? 0))}
              <IconButton small icon="first" label={said.first} disabled={after === 0} onClick={() => setAfter(0)} />
              <IconButton small icon="left" label={said.earlier} disabled={after === 0} onClick={() => setAfter(before.current.pop() ?? Math.max(0, after - SHOWN))} />
              <IconButton
                small
                icon="right"
                label={said.later}
                disabled={last.current.next === null}
                onClick={() => {
                  before.current.push(after);
                  setAfter(last.current?.next ?? after);
                }}
              />
              {asked === "" && (
                <IconButton small icon="last" label={said.last} disabled={last.current.next === null} onClick={() => setAfter(Math.max(0, (tree?.body.last ?? 0) - SHOWN))} />
              )}
            </span>
          )}
        </div>
      </div>
      {chosen && <EntryPanel entry={chosen} record={props.record} onClose={() => choose(undefined)} onMove={move} />}
    </div>
  );
}

/** After which line the page of a line begins. */
function startOf(seq: string): number {
  const line = Number(seq);
  return Number.isSafeInteger(line) && line > 0 ? line - 1 - ((line - 1) % SHOWN) : 0;
}

/** The line of the address, also if it is not on this page. */
function useEntry(run: string, seq: string, here: Entry | undefined): Entry | undefined {
  const isElsewhere = seq !== "" && !here;
  const reading = useReading(
    `run-entry ${run} ${isElsewhere ? seq : ""}`,
    async (signal) => (isElsewhere ? read("/api/runs/{run}/history/{seq}", { parts: { run, seq }, signal }) : undefined),
    600_000,
  );
  return here ?? reading.data.value;
}

function lookOf(entry: Entry): { icon: IconName; mark: string } {
  if (entry.status === "failed") return { icon: "s-failed", mark: "st-failed" };
  if (isUndo(entry)) return { icon: "s-undone", mark: "st-undone" };
  if (entry.kind === "sleep") return { icon: "s-timed_out", mark: "st-pending" };
  if (entry.kind === "step" || entry.kind === "once" || entry.kind === "child") return { icon: "s-completed", mark: "st-completed" };
  return { icon: "info", mark: "st-pending" };
}

function withWhat(entry: Entry): string {
  if (entry.unreadable) return entry.unreadable;
  if (entry.failure) return summaryOf(entry.failure);
  if (isHidden(entry.value)) return words.json.hidden;
  if (entry.value === null || entry.value === undefined) return "";
  return (JSON.stringify(entry.value) ?? "").slice(0, 200);
}

function EntryPanel(props: { entry: Entry; record: RunRecord; onClose: () => void; onMove: (step: number) => void }) {
  const { entry, record } = props;
  const said = words.history;
  const link = new URL(toRun(record.run.run_id, { tab: "history", entry: String(entry.seq) }), root).href;
  return (
    <aside class="panel" aria-label={said.entryNumber(number(entry.seq))}>
      <header>
        <h2>{said.entryNumber(number(entry.seq))}</h2>
        <CopyButton text={link} label={said.copyLink} />
        <span class="end row tight">
          <IconButton small icon="up" label={said.before} onClick={() => props.onMove(-1)} />
          <IconButton small icon="down" label={said.after} onClick={() => props.onMove(1)} />
          <IconButton small icon="x" label={words.close} onClick={props.onClose} />
        </span>
      </header>
      <dl class="kv small pad-y">
        <dt>{said.what}</dt>
        <dd>{words.entryWords(entry.kind, entry.status)}</dd>
        <dt>{said.path}</dt>
        <dd class="mono">
          <bdi>{entry.path}</bdi>
        </dd>
        <dt>{said.at}</dt>
        <dd>
          <FullTime at={entry.at} exact />
        </dd>
        <dt>{words.step.took}</dt>
        <dd>{duration(entry.took * 1_000)}</dd>
      </dl>
      {entry.failure && <FailureBox failure={entry.failure} />}
      <h3>{said.json}</h3>
      <Json value={entry} label={said.json} />
    </aside>
  );
}
