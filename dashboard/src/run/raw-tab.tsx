// The record as the API gives it.

import { Command } from "../parts/copy";
import { Json } from "../parts/json";
import { command, target } from "../shell";
import { words } from "../words";
import type { RunRecord } from "./record";

const ENTRIES_MAX = 200;

export function RawTab(props: { record: RunRecord }) {
  const { run, entries, waits, children, progress, pendingSignals } = props.record;
  const cut = entries.length > ENTRIES_MAX;
  return (
    <>
      <div class="section-s">
        <Command text={`${command("export", target(run.run_id))} > run.json`} />
        {cut && <p class="sub gap-t">{words.raw.cut(ENTRIES_MAX, entries.length)}</p>}
      </div>
      <Json
        label={words.raw.label}
        value={{
          run,
          waits,
          progress,
          pending_signals: pendingSignals,
          children: children.map((child) => child.run_id),
          entries: entries.slice(-ENTRIES_MAX),
        }}
      />
    </>
  );
}
