// How a status is shown: an icon and a word, never a colour alone.

import type { Failure, Run, RunStatus, Wait } from "./api";
import type { IconName } from "./parts/sprite";
import { words } from "./words";

/** Under this name, the failure of an undo keeps that of its run. */
export const OWN = "run";

export type Tone = "idle" | "run" | "wait" | "warn" | "bad" | "good" | "undo";
/** The statuses that people see. Some stored statuses have more than one. */
export type Shown =
  | "pending" | "running" | "waiting" | "paused" | "retrying" | "compensating" | "completed" | "failed"
  | "compensated" | "rollback_incomplete" | "cancelled" | "timed_out" | "continued";

interface Look {
  icon: IconName;
  tone: Tone;
  /** The word is coloured too: somebody has to act. */
  isLoud?: true;
}

export const looks: Record<Shown, Look> = {
  pending: { icon: "s-pending", tone: "idle" },
  running: { icon: "s-running", tone: "run" },
  waiting: { icon: "s-waiting", tone: "wait" },
  paused: { icon: "s-paused", tone: "idle" },
  retrying: { icon: "s-retrying", tone: "warn" },
  compensating: { icon: "s-compensating", tone: "undo" },
  completed: { icon: "s-completed", tone: "good" },
  failed: { icon: "s-failed", tone: "bad", isLoud: true },
  compensated: { icon: "s-compensated", tone: "undo" },
  rollback_incomplete: { icon: "s-rollback_incomplete", tone: "bad" },
  cancelled: { icon: "s-cancelled", tone: "idle" },
  timed_out: { icon: "s-timed_out", tone: "bad", isLoud: true },
  continued: { icon: "s-continued", tone: "idle" },
};

const SHOWN: Record<RunStatus, Shown> = {
  pending: "pending",
  running: "running",
  waiting: "waiting",
  paused: "paused",
  cancelling: "compensating",
  compensating: "compensating",
  compensation_failed: "rollback_incomplete",
  completed: "completed",
  failed: "failed",
  compensated: "compensated",
  cancelled: "cancelled",
  continued: "continued",
};
/** What is shown of a status alone. */
export function shownAs(status: RunStatus): Shown {
  return SHOWN[status];
}

/** The codes of the two errors that mean that a run took too long. */
const OUT_OF_TIME = new Set(["SW471", "SW472"]);

/** What is shown of a run's status. What it waits for is known on its own page only. */
export function shownOf(run: Run, waits: Wait[] = []): Shown {
  if (run.status === "failed" && run.failure && OUT_OF_TIME.has(run.failure.code)) return "timed_out";
  if (run.status === "waiting" && waits.length > 0 && waits.every((wait) => wait.kind === "retry")) return "retrying";
  return SHOWN[run.status];
}

/** The words of a status, as specific as what is known of the run. */
export function wordOf(run: Run, waits: Wait[] = []): string {
  const shown = shownOf(run, waits);
  switch (shown) {
    case "paused":
      return run.hold?.by ? words.statuses.pausedBy(run.hold.by) : words.statuses.paused;
    case "compensating":
      return run.status === "cancelling" ? words.statuses.cancelling : words.statuses.compensating;
    case "waiting": {
      const kinds = [...new Set(waits.map((wait) => wait.kind))];
      const kind = kinds.length === 1 ? kinds[0] : undefined;
      return words.statuses.waitingFor[kind as keyof typeof words.statuses.waitingFor] ?? words.statuses.waiting;
    }
    case "retrying":
      return words.statuses.attempt((waits[0]?.failed_attempts.at(-1)?.number ?? 0) + 1);
    default:
      return words.statuses[shown];
  }
}

/** Whether nothing moves the run any more. */
export function isEnded(run: Run): boolean {
  return run.ended_at !== null;
}

const NOT_OWN = "SW454"; // the failure of a child: paths below it are those of the child

/** The failure that caused those above it, and its path in the run whose failure this is. */
export function originOf(failure: Failure): { failure: Failure; path: string; others: number } {
  let [path, others, isOwn, found] = [failure.path, 0, true, failure];
  for (let causes = Object.values(found.causes); causes[0]; causes = Object.values(found.causes)) {
    isOwn &&= found.code !== NOT_OWN;
    others += causes.length - 1;
    if (isOwn && causes[0].path) path = causes[0].path;
    found = causes[0];
  }
  return { failure: found, path, others };
}

/** A failure in one line. */
export function summaryOf(failure: Failure): string {
  return failure.message ? `${failure.type}: ${failure.message}` : failure.type;
}

export interface Reason {
  path: string;
  text: string;
}

/** Where a run is, and why, in one line; both are empty for a run that needs no explanation. */
export function reasonOf(run: Run): Reason {
  if (run.unreadable) return { path: "", text: run.unreadable };
  switch (run.status) {
    case "continued":
      return { path: "", text: run.successor ? words.reasons.continuedAs(run.successor) : "" };
    case "cancelled":
    case "cancelling":
      return { path: "", text: run.reason };
    case "paused":
      if (run.hold) return { path: "", text: run.hold.reason };
      return run.failure ? ofFailure(run.failure) : { path: "", text: run.reason };
    case "compensation_failed": {
      if (!run.failure) return { path: "", text: run.reason };
      const { [OWN]: _, ...causes } = run.failure.causes;
      const found = ofFailure({ ...run.failure, causes });
      return { path: found.path.split("~undo")[0] ?? "", text: words.reasons.notUndone(found.text) };
    }
    case "failed":
    case "compensated":
    case "compensating":
      return run.failure ? ofFailure(run.failure) : { path: "", text: run.reason };
    default:
      return { path: "", text: "" };
  }
}

function ofFailure(failure: Failure): Reason {
  const origin = originOf(failure);
  return { path: origin.path, text: summaryOf(origin.failure) + words.reasons.others(origin.others) };
}
