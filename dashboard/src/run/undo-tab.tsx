// The undo stack: every step that has an undo, the newest first, and what became of its undo.

import { offer } from "../acts";
import { runActs } from "../acts/runs";
import { duration } from "../formats";
import { ActBar } from "../parts/acts";
import { Icon } from "../parts/icon";
import type { IconName } from "../parts/sprite";
import { None } from "../parts/states";
import { Time } from "../parts/time";
import { toRun } from "../place";
import { words } from "../words";
import type { RunRecord, Undo } from "./record";

type UndoState = Undo["state"];

const LOOKS: Record<UndoState, { icon: IconName; mark: string }> = {
  undone: { icon: "s-undone", mark: "st-undone" },
  failed: { icon: "s-failed", mark: "st-failed loud" },
  "not undone": { icon: "s-skipped", mark: "st-skipped" },
  next: { icon: "s-pending", mark: "st-pending" },
  kept: { icon: "s-skipped", mark: "st-skipped" },
};

export function UndoTab(props: { record: RunRecord }) {
  const { run, undos: stack } = props.record;
  const said = words.undo;
  if (stack.length === 0) return <None>{said.none}</None>;
  const undone = stack.filter((one) => one.state === "undone").length;
  return (
    <>
      <div class="section-s">
        <p class="sub">
          {said.order} {said.sum(undone, stack.length)}
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
            {stack.map((one, place) => (
              <tr key={one.path}>
                <td class="num">{stack.length - place}</td>
                <td class="path">
                  <a href={toRun(run.run_id, { at: one.path })}>{one.path}</a>
                </td>
                <td>
                  <span class={`st ${LOOKS[one.state].mark}`}>
                    <Icon name={LOOKS[one.state].icon} />
                    {said.states[one.state]}
                  </span>
                </td>
                <td class="num">{one.attempts}</td>
                <td class="num">{one.took !== null && duration(one.took * 1_000)}</td>
                <td class="num two">
                  <Time at={one.at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
