// The state of an act on many runs, in words and as a mark.

import type { Bulk } from "../acts/bulks";
import { number } from "../formats";
import { Icon } from "../parts/icon";
import type { IconName } from "../parts/sprite";
import { words } from "../words";

const said = words.bulk;

const LOOKS: Record<Bulk["state"], { icon: IconName; look: string }> = {
  planned: { icon: "s-pending", look: "pending" },
  running: { icon: "s-running", look: "running" },
  aborting: { icon: "s-cancelled", look: "cancelled" },
  paused: { icon: "s-paused", look: "paused" },
  done: { icon: "s-completed", look: "completed" },
  aborted: { icon: "s-cancelled", look: "cancelled" },
  failed: { icon: "s-failed", look: "failed" },
};

/** How many runs it has come to an outcome for. */
export function reached(bulk: Bulk): number {
  return bulk.done + bulk.before + bulk.refused;
}

/** Its state, as specific as what is known. */
export function stateWords(bulk: Bulk): string {
  if (bulk.state === "running") {
    return bulk.matched === 0 ? said.searching : said.progress(String(Math.floor((100 * reached(bulk)) / bulk.matched)));
  }
  if (bulk.state === "done" && bulk.refused > 0) return said.refusedSome(number(bulk.refused));
  return said.states[bulk.state];
}

export function BulkState(props: { bulk: Bulk; isBadge?: boolean }) {
  const { bulk } = props;
  const isWarning = bulk.state === "done" && bulk.refused > 0;
  const { icon, look } = isWarning ? { icon: "s-warning" as const, look: "retrying" } : LOOKS[bulk.state];
  return (
    <span class={`st st-${look} ${props.isBadge ? "badge" : ""}`}>
      <Icon name={icon} />
      <span class="ell">{stateWords(bulk)}</span>
    </span>
  );
}
