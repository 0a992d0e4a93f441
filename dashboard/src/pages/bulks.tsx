// Acts on many runs: what was ordered, by whom, and what became of it.

import "./bulks.css";
import type { Bulk } from "../acts/bulks";
import { read } from "../api";
import { number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { Empty, Skeleton } from "../parts/states";
import { Time } from "../parts/time";
import { to } from "../place";
import { BulkState } from "../runs/bulk-state";
import { words } from "../words";

const EVERY_MS = 2_000;
const LISTED_MAX = 200;
const said = words.bulk;

export default function Bulks() {
  useHead(words.nav.bulk, [{ text: words.nav.bulk }]);
  const reading = useReading("bulk list", (signal) => read("/api/bulks", { query: { limit: LISTED_MAX }, signal }), EVERY_MS);
  const found = reading.data.value?.bulks;
  return (
    <>
      <div class="head">
        <h1>{words.nav.bulk}</h1>
        <span class="sub">{said.sub}</span>
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton label={words.reading} />}
      {found?.length === 0 && (
        <Empty title={said.none} text={said.noneText} command="stepwell cancel --where 'status:waiting until:7d' --dry-run">
          <a class="btn" href={to("runs")}>
            {words.nav.runs}
          </a>
        </Empty>
      )}
      {found && found.length > 0 && <BulkTable bulks={found} />}
    </>
  );
}

function BulkTable(props: { bulks: Bulk[] }) {
  const list = useRowKeys<HTMLTableSectionElement>();
  return (
    <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.label}>
      <table class="table bulks">
        <colgroup>
          <col class="b-st" />
          <col class="b-name" />
          <col />
          <col class="b-n" />
          <col class="b-out" />
          <col class="b-by" />
          <col class="b-t" />
        </colgroup>
        <thead>
          <tr>
            <th>{said.state}</th>
            <th>{said.name}</th>
            <th>{said.what}</th>
            <th class="num">{said.runs}</th>
            <th>{said.outcome}</th>
            <th>{said.by}</th>
            <th class="num">{said.begun}</th>
          </tr>
        </thead>
        <tbody ref={list}>
          {props.bulks.map((bulk) => (
            <tr key={bulk.run_id}>
              <td>
                <BulkState bulk={bulk} />
              </td>
              <td>
                <a class="id row-name" href={to(`bulk/${encodeURIComponent(bulk.name ?? "")}`)}>
                  {bulk.name}
                </a>
              </td>
              <td>
                {said.verbs[bulk.verb] ?? bulk.verb} {bulk.where ? <code>{bulk.where}</code> : <span class="two">{said.chosen}</span>}
              </td>
              <td class="num">{number(bulk.matched)}</td>
              <td class="two">
                {number(bulk.done)} {said.outcomes.done.toLowerCase()}
                {bulk.refused > 0 && (
                  <>
                    , <span class="bad-text">{number(bulk.refused)} {said.outcomes.refused.toLowerCase()}</span>
                  </>
                )}
              </td>
              <td>
                <bdi>{bulk.by || words.somebody}</bdi>
              </td>
              <td class="num two">
                <Time at={bulk.began_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
