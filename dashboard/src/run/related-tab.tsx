// Other runs that have to do with this one.

import type { Run } from "../api";
import { read } from "../api";
import { useReading } from "../live";
import { Mid, Status } from "../parts/icon";
import { None } from "../parts/states";
import { Time } from "../parts/time";
import { to, toRun } from "../place";
import { words } from "../words";
import type { RunRecord } from "./record";

export interface Related {
  how: string;
  id: string;
  run: Run | undefined;
}

export function relatedOf(record: RunRecord): Related[] {
  const { run, children } = record;
  const said = words.related;
  const named: [string, string | null][] = [
    [said.parent, run.parent],
    [said.successor, run.successor],
    [said.forkedFrom, run.forked_from],
    [said.replacedBy, run.replaced_by],
  ];
  return [
    ...named.flatMap(([how, id]) => (id ? [{ how, id, run: undefined }] : [])),
    ...children.map((child) => ({ how: said.child, id: child.run_id, run: child })),
  ];
}

export function RelatedTab(props: { run: Run; related: Related[] }) {
  const said = words.related;
  const other = (
    <p class="gap-t">
      <a href={to("compare", { left: props.run.key ?? props.run.run_id })}>{words.compare.withOther}</a>
    </p>
  );
  if (props.related.length === 0)
    return (
      <>
        <None>{said.none}</None>
        {other}
      </>
    );
  return (
    <>
      <RelatedTable run={props.run} related={props.related} />
      {other}
    </>
  );
}

function RelatedTable(props: { run: Run; related: Related[] }) {
  const said = words.related;
  return (
    <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.label}>
      <table class="table" aria-label={said.label}>
        <colgroup>
          <col class="c-how" />
          <col />
          <col class="c-wf" />
          <col class="c-status" />
          <col class="c-time" />
          <col class="c-took" />
        </colgroup>
        <thead>
          <tr>
            <th>{said.how}</th>
            <th>{words.runs.run}</th>
            <th>{words.runs.workflow}</th>
            <th>{words.runs.status}</th>
            <th class="num">{words.runs.created}</th>
            <th>
              <span class="vh">{said.compare}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {props.related.map((one) => (
            <RelatedRow key={`${one.how} ${one.id}`} run={props.run} related={one} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RelatedRow(props: { run: Run; related: Related }) {
  const { id, how } = props.related;
  const said = words.related;
  const found = useReading(`run-row ${id}`, async (signal) => (await read("/api/runs/{run}", { parts: { run: id }, signal })).run, 10_000);
  const run = found.data.value ?? props.related.run;
  return (
    <tr>
      <td class="two">{how}</td>
      <td>
        <a class="id" href={toRun(id)}>
          <Mid text={run?.key ?? id} />
        </a>
      </td>
      <td>{run && <bdi>{run.workflow}</bdi>}</td>
      <td>{run && <Status run={run} />}</td>
      <td class="num two">{run && <Time at={run.created_at} />}</td>
      <td>
        <a href={to(`compare/${encodeURIComponent(props.run.run_id)}/${encodeURIComponent(id)}`)} aria-label={`${said.compare}: ${run?.key ?? id}`}>
          {said.compare}
        </a>
      </td>
    </tr>
  );
}
