// The last outcomes of a schedule as bars, the newest at the end.

import type { Schedule } from "../acts/schedules";
import { words } from "../words";

type Outcome = Schedule["outcomes"][number];
export type Fate = "completed" | "failed" | "running" | "none" | "gone";

const SHOWN = 20;
const WIDTH = 5;
const STEP = 7.6;
const HEIGHT = 18;
const FAILED = new Set(["failed", "compensated", "compensation_failed", "cancelled"]);
const ENDED = new Set(["completed", "continued"]);

/** What became of a tick: of its run, if it started one. */
export function fateOf(one: Pick<Outcome, "kind" | "run_id" | "run_status">): Fate {
  if (one.kind === "failed") return "failed";
  if (one.kind !== "started" && one.kind !== "triggered") return "none";
  if (one.run_status === null) return "gone";
  return FAILED.has(one.run_status) ? "failed" : ENDED.has(one.run_status) ? "completed" : "running";
}

/** How many of each fate, in words. Those that went well are left out if `isOdd`. */
export function countFates(outcomes: Outcome[], isOdd = false): string {
  const counts = new Map<Fate, number>();
  for (const one of outcomes) counts.set(fateOf(one), (counts.get(fateOf(one)) ?? 0) + 1);
  const shown: Fate[] = isOdd ? ["failed", "none"] : ["completed", "failed", "running", "none", "gone"];
  return shown.flatMap((fate) => (counts.has(fate) ? [`${counts.get(fate)} ${words.schedules.counts[fate]}`] : [])).join(", ");
}

const MARKS: Record<Fate, string> = { completed: "f-done", failed: "f-bad", running: "f-run", none: "", gone: "f-idle" };

export function Outcomes(props: { outcomes: Outcome[] }) {
  const newestLast = props.outcomes.slice(0, SHOWN).reverse();
  const before = SHOWN - newestLast.length;
  return (
    <svg class="outcomes" viewBox={`0 0 ${SHOWN * STEP} ${HEIGHT}`} role="img" aria-label={words.schedules.strip(countFates(props.outcomes))}>
      {Array.from({ length: before }, (_, place) => (
        <rect key={place} class="f-none" x={place * STEP} y={HEIGHT - 2} width={WIDTH} height={2} rx={1} />
      ))}
      {newestLast.map((one, place) => {
        const fate = fateOf(one);
        const x = (before + place) * STEP;
        if (fate === "none") return <rect key={one.fire_time} class="bar-none" x={x + 0.5} y={6.5} width={WIDTH - 1} height={HEIGHT - 7} rx={1} />;
        const y = fate === "failed" ? 0 : 6;
        return <rect key={one.fire_time} class={MARKS[fate]} x={x} y={y} width={WIDTH} height={HEIGHT - y} rx={1} />;
      })}
    </svg>
  );
}
