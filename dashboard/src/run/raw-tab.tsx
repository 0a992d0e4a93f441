// The record as the API gives it.

import { read } from "../api";
import { useReading } from "../live";
import { Command } from "../parts/copy";
import { Json } from "../parts/json";
import { command, target } from "../shell";
import { words } from "../words";
import type { RunRecord } from "./record";

const ENTRIES_MAX = 200;

export function RawTab(props: { record: RunRecord }) {
  const { run, waits, children, progress, pending, tree } = props.record;
  const last = tree?.body.last ?? 0;
  const after = Math.max(0, last - ENTRIES_MAX);
  const page = useReading(
    `run-raw ${run.run_id} ${after}`,
    (signal) => read("/api/runs/{run}/history", { parts: { run: run.run_id }, query: { after, limit: ENTRIES_MAX }, signal }),
    10_000,
    { run: run.run_id },
  );
  const entries = page.data.value?.entries ?? [];
  const cut = after > 0;
  return (
    <>
      <div class="section-s">
        <Command text={`${command("export", target(run.run_id))} > run.json`} />
        {cut && <p class="sub gap-t">{words.raw.cut(ENTRIES_MAX, last)}</p>}
      </div>
      <Json
        label={words.raw.label}
        value={{
          run,
          waits,
          progress,
          pending,
          children: children.map((child) => child.run_id),
          entries,
        }}
      />
    </>
  );
}
