// What the run was given, and what it gave back.

import { size } from "../formats";
import { FailureBox } from "../parts/failure";
import { Json } from "../parts/json";
import { None } from "../parts/states";
import { isEnded } from "../statuses";
import { words } from "../words";
import type { RunRecord } from "./record";

export function InputTab(props: { record: RunRecord }) {
  const { run } = props.record;
  const said = words.io;
  return (
    <div class="cols-2">
      <section>
        <div class="bar">
          <h2>{said.input}</h2>
          <span class="dim">{run.input === null ? said.nothing : size(run.input)}</span>
        </div>
        {run.input === null ? <None>{said.noInput}</None> : <Json value={run.input} label={said.input} />}
      </section>
      <section>
        <div class="bar">
          <h2>{said.output}</h2>
          <span class="dim">{run.status === "completed" ? size(run.output) : said.noOutput}</span>
        </div>
        {run.status === "completed" ? (
          <Json value={run.output} label={said.output} />
        ) : run.failure ? (
          <FailureBox failure={run.failure} />
        ) : (
          <None>{isEnded(run) ? said.ended : said.notYet}</None>
        )}
      </section>
    </div>
  );
}
