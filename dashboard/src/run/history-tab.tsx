// The history: every entry in the order of its commit. It is only added to.

import { useLocation } from "preact-iso";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Entry } from "../api";
import { duration, number } from "../formats";
import { useKeys } from "../keys";
import { CopyButton } from "../parts/copy";
import { FailureBox } from "../parts/failure";
import { Icon, IconButton } from "../parts/icon";
import { isHidden, Json } from "../parts/json";
import type { IconName } from "../parts/sprite";
import { None } from "../parts/states";
import { FullTime } from "../parts/time";
import { root, toRun } from "../place";
import { summaryOf } from "../statuses";
import { words } from "../words";
import { isUndo } from "./places";
import type { RunRecord } from "./record";

const SHOWN = 150;

export function HistoryTab(props: { record: RunRecord; at: string }) {
  const { run, entries } = props.record;
  const { route } = useLocation();
  const [wanted, setWanted] = useState("");
  const [from, setFrom] = useState(() => pageOf(entries, props.at));
  const input = useRef<HTMLInputElement>(null);
  const found = useMemo(() => entries.filter((entry) => fits(entry, wanted.trim().toLowerCase())), [entries, wanted]);
  const first = Math.min(from, Math.max(0, found.length - 1) - (Math.max(0, found.length - 1) % SHOWN));
  const page = found.slice(first, first + SHOWN);
  const chosen = entries.find((entry) => String(entry.seq) === props.at);
  const start = Date.parse(run.started_at ?? run.created_at);
  const choose = (entry: Entry | undefined) =>
    route(toRun(run.run_id, { tab: "history", entry: entry && String(entry.seq) }), true);
  const move = (step: number) => {
    const at = found.findIndex((entry) => entry === chosen);
    const next = found[Math.min(found.length - 1, Math.max(0, at + step))];
    choose(next);
    setFrom(pageOf(found, String(next?.seq ?? "")));
  };
  useKeys({ f: () => input.current?.focus(), j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
  if (entries.length === 0) return <None>{words.timeline.nothing}</None>;
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
              onInput={(event) => {
                setWanted(event.currentTarget.value);
                setFrom(0);
              }}
            />
            <span class="count">{said.count(number(found.length), number(entries.length))}</span>
          </div>
        </div>
        <div class="scroll-x">
          <table class="table hist" aria-label={said.label}>
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
                <tr key={entry.seq} aria-selected={entry === chosen} onClick={() => choose(entry)}>
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
          {found.length > SHOWN && (
            <span class="pager">
              {said.range(number(first + 1), number(first + page.length), number(found.length))}
              <IconButton small icon="left" label={said.earlier} disabled={first === 0} onClick={() => setFrom(first - SHOWN)} />
              <IconButton
                small
                icon="right"
                label={said.later}
                disabled={first + SHOWN >= found.length}
                onClick={() => setFrom(first + SHOWN)}
              />
            </span>
          )}
        </div>
      </div>
      {chosen && <EntryPanel entry={chosen} record={props.record} onClose={() => choose(undefined)} onMove={move} />}
    </div>
  );
}

function pageOf(entries: Entry[], seq: string): number {
  const at = entries.findIndex((entry) => String(entry.seq) === seq);
  return at === -1 ? 0 : at - (at % SHOWN);
}

function fits(entry: Entry, wanted: string): boolean {
  return (
    wanted === "" ||
    entry.path.toLowerCase().includes(wanted) ||
    words.entryWords(entry.kind, entry.status).toLowerCase().includes(wanted) ||
    (entry.failure !== null && summaryOf(entry.failure).toLowerCase().includes(wanted))
  );
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
