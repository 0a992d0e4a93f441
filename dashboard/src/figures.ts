// Figures of the whole store, from the metrics of the API.

import { read } from "./api";
import { type Reading, useReading } from "./live";

export interface Figures {
  /** Runs that have not ended, by status. */
  runs: Record<string, number>;
  ready: number;
  oldestSeconds: number;
  workers: number;
}

const LINE = /^(\w+)(?:\{status="(\w+)"\})? ([\d.e+-]+)$/;

/** The figures in a text of metrics. */
export function figuresIn(text: string): Figures {
  const found: Figures = { runs: {}, ready: 0, oldestSeconds: 0, workers: 0 };
  for (const line of text.split("\n")) {
    const [, name, status, value] = LINE.exec(line) ?? [];
    if (name === "stepwell_runs" && status) found.runs[status] = Number(value);
    else if (name === "stepwell_ready_runs") found.ready = Number(value);
    else if (name === "stepwell_ready_oldest_seconds") found.oldestSeconds = Number(value);
    else if (name === "stepwell_workers_alive") found.workers = Number(value);
  }
  return found;
}

export function useFigures(): Reading<Figures> {
  return useReading("figures", async (signal) => figuresIn(await read("/api/metrics", { signal })), 4_000);
}
