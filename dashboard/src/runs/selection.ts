// The runs that somebody has selected in a list: some rows, or all that match its filter.

import { useEffect, useState } from "preact/hooks";
import type { Run } from "../api";

export interface Selection {
  /** The selected rows, as they were when they were last seen. */
  runs: Run[];
  isAll: boolean;
  has: (run: Run) => boolean;
  toggle: (run: Run) => void;
  /** Select all these rows, or none of them if they are selected. */
  toggleAll: (rows: Run[]) => void;
  /** Every run that matches the filter, also those on other pages. */
  selectAll: () => void;
  clear: () => void;
}

/** The selection of a list. Another filter begins with an empty one; the next page of the same list keeps it. */
export function useSelection(filter: string, known: Run[]): Selection {
  const [chosen, setChosen] = useState<ReadonlyMap<string, Run>>(new Map());
  const [isAll, setAll] = useState(false);
  const clear = () => {
    setChosen(new Map());
    setAll(false);
  };
  useEffect(clear, [filter]);
  const change = (edit: (runs: Map<string, Run>) => void) => {
    setAll(false);
    setChosen((before) => {
      const after = new Map(before);
      edit(after);
      return after;
    });
  };
  const latest = new Map(known.map((run) => [run.run_id, run]));
  return {
    runs: [...chosen.values()].map((run) => latest.get(run.run_id) ?? run),
    isAll,
    has: (run) => isAll || chosen.has(run.run_id),
    toggle: (run) => change((runs) => void (runs.delete(run.run_id) || runs.set(run.run_id, run))),
    toggleAll: (rows) =>
      change((runs) => {
        const isWhole = rows.every((run) => runs.has(run.run_id));
        for (const run of rows) if (isWhole) runs.delete(run.run_id);
          else runs.set(run.run_id, run);
      }),
    selectAll: () => setAll(true),
    clear,
  };
}
