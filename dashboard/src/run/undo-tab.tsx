// The undo stack: every step that has an undo, the newest first, and what became of its undo.

import { offer } from "../acts";
import { runActs } from "../acts/runs";
import type { Entry, Run } from "../api";
import { duration } from "../formats";
import { ActBar } from "../parts/acts";
import { Icon } from "../parts/icon";
import type { IconName } from "../parts/sprite";
import { None } from "../parts/states";
import { Time } from "../parts/time";
import { toRun } from "../place";
import { isEnded } from "../statuses";
import { words } from "../words";
import { isUndo, undonePath } from "./places";
import type { RunRecord } from "./record";

type UndoState = "undone" | "failed" | "notUndone" | "possible";

export interface Undo {
  entry: Entry;
  state: UndoState;
  undo: Entry | undefined;
}

/** The stack, in the order of a rollback. */
export function undoStack(run: Run, entries: Entry[]): Undo[] {
  const undos = new Map(entries.filter(isUndo).map((entry) => [undonePath(entry.path), entry]));
  const stopped = run.status === "compensation_failed" && run.failure ? undonePath(run.failure.path) : undefined;
  const isOver = isEnded(run) || run.status === "compensation_failed";
  return entries
    .filter((entry) => entry.can_undo && !isUndo(entry))
    .sort((one, other) => other.seq - one.seq)
    .map((entry): Undo => {
      const undo = undos.get(entry.path);
      const state = entry.is_undone ? "undone" : stopped === entry.path ? "failed" : isOver ? "notUndone" : "possible";
      return { entry, state, undo };
    });
}

const LOOKS: Record<UndoState, { icon: IconName; mark: string }> = {
  undone: { icon: "s-undone", mark: "st-undone" },
  failed: { icon: "s-failed", mark: "st-failed loud" },
  notUndone: { icon: "s-skipped", mark: "st-skipped" },
  possible: { icon: "s-pending", mark: "st-pending" },
};

export function UndoTab(props: { record: RunRecord; stack: Undo[] }) {
  const { run } = props.record;
  const said = words.undo;
  if (props.stack.length === 0) return <None>{said.none}</None>;
  const undone = props.stack.filter((one) => one.state === "undone").length;
  return (
    <>
      <div class="section-s">
        <p class="sub">
          {said.order} {said.sum(undone, props.stack.length)}
        </p>
        {run.status === "compensation_failed" && (
          <div class="gap-t">
            <ActBar offers={[offer(runActs.resumeRollback, { run, awaited: [], path: "" })]} />
          </div>
        )}
      </div>
      <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.label}>
        <table class="table undo-table">
          <colgroup>
            <col class="c-n" />
            <col />
            <col class="c-state" />
            <col class="c-age" />
            <col class="c-dur" />
            <col class="c-time" />
          </colgroup>
          <thead>
            <tr>
              <th class="num">{said.place}</th>
              <th>{said.effect}</th>
              <th>{said.state}</th>
              <th class="num">{words.tree.tries}</th>
              <th class="num">{words.tree.took}</th>
              <th class="num">{said.at}</th>
            </tr>
          </thead>
          <tbody>
            {props.stack.map((one, place) => (
              <tr key={one.entry.seq}>
                <td class="num">{props.stack.length - place}</td>
                <td class="path">
                  <a href={toRun(run.run_id, { at: one.entry.path })}>{one.entry.path}</a>
                </td>
                <td>
                  <span class={`st ${LOOKS[one.state].mark}`}>
                    <Icon name={LOOKS[one.state].icon} />
                    {said.states[one.state]}
                  </span>
                </td>
                <td class="num">{one.undo?.attempts}</td>
                <td class="num">{one.undo && duration(one.undo.took * 1_000)}</td>
                <td class="num two">
                  <Time at={one.undo?.at ?? null} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
