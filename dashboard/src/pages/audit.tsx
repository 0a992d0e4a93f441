// The audit: who did what through the API, newest first. Every act has two lines; they are shown as one.

import { useState } from "preact/hooks";
import { read, type Schemas } from "../api";
import { useHead } from "../head";
import { useReading } from "../live";
import { Command } from "../parts/copy";
import { ProblemBox } from "../parts/problem";
import { Empty, Skeleton } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { Icon } from "../parts/icon";
import { to, toRun } from "../place";
import { words } from "../words";

type Line = Schemas["AuditBody"];

/** An act: what was asked, and what came of it. */
export interface Act {
  asked: Line | undefined;
  answered: Line | undefined;
}

const PAGE = 100;

/** The lines of a page as acts: two lines of one request are one act. */
export function actsOf(lines: Line[]): Act[] {
  const acts: Act[] = [];
  const byRequest = new Map<string, Act>();
  for (const line of lines) {
    const found = byRequest.get(line.request_id);
    if (found && line.outcome === "asked") found.asked = line;
    else {
      const act: Act = line.outcome === "asked" ? { asked: line, answered: undefined } : { asked: undefined, answered: line };
      byRequest.set(line.request_id, act);
      acts.push(act);
    }
  }
  return acts;
}

export default function Audit(props: { query: Record<string, string> }) {
  const below = props.query["below"];
  const said = words.audit;
  useHead(words.nav.audit, [{ text: words.nav.audit }]);
  const reading = useReading(
    `audit ${below ?? ""}`,
    (signal) => read("/api/audit", { query: { limit: PAGE, ...(below ? { below: Number(below) } : {}) }, signal }),
    4_000,
  );
  const page = reading.data.value;
  const acts = page ? actsOf(page.acts) : [];
  return (
    <>
      <div class="head">
        <h1>{words.nav.audit}</h1>
        <span class="sub">{said.about}</span>
      </div>
      {!page && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!page && !reading.problem.value && <Skeleton rows={10} label={words.reading} />}
      {page && acts.length === 0 && <Empty title={said.none} text={said.noneText} />}
      {acts.length > 0 && (
        <>
          <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={words.nav.audit}>
            <table class="table aud">
              <colgroup>
                <col class="u-t" />
                <col class="u-who" />
                <col class="u-act" />
                <col />
                <col class="u-out" />
              </colgroup>
              <thead>
                <tr>
                  <th>{said.when}</th>
                  <th>{said.who}</th>
                  <th>{said.did}</th>
                  <th>{said.to}</th>
                  <th>{said.outcome}</th>
                </tr>
              </thead>
              <tbody>
                {acts.map((act) => (
                  <ActRow key={(act.answered ?? act.asked)?.number} act={act} />
                ))}
              </tbody>
            </table>
          </div>
          <div class="foot">
            <span>{said.chain}</span>
            <Command text="stepwell doctor" />
            <nav class="pager" aria-label={words.runs.pages}>
              {below && (
                <a class="btn sm" href={to("audit")}>
                  <Icon name="first" />
                  {words.runs.newest}
                </a>
              )}
              {page?.next && (
                <a class="btn sm" href={to("audit", { below: String(page.next) })}>
                  {words.runs.older}
                  <Icon name="right" />
                </a>
              )}
            </nav>
          </div>
        </>
      )}
    </>
  );
}

const ON_RUNS = /_run$|^(?:send_signal|resume_rollback)$/;

function ActRow(props: { act: Act }) {
  const [isOpen, setOpen] = useState(false);
  const line = props.act.answered ?? props.act.asked;
  if (!line) return null;
  const said = words.audit;
  const isRefused = /^[45]/.test(line.outcome);
  return (
    <>
      <tr aria-selected={isOpen}>
        <td class="two">
          <button type="button" class="row-open" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            <Icon name="right" />
            <Time at={line.at} />
          </button>
        </td>
        <td class="ell">
          <bdi>{line.who}</bdi>
        </td>
        <td>{line.act.replace(/_/g, " ")}</td>
        <td class="path ell">
          {ON_RUNS.test(line.act) && line.act !== "start_run" && line.target ? (
            <a href={toRun(line.target)}>
              <bdi>{line.target}</bdi>
            </a>
          ) : (
            <bdi>{line.target}</bdi>
          )}
        </td>
        <td class={isRefused ? "bad-text" : props.act.answered ? "" : "warn-text"}>
          {props.act.answered ? (isRefused ? said.refused(line.outcome) : line.after || said.done) : said.noAnswer}
        </td>
      </tr>
      {isOpen && (
        <tr class="detail-row">
          <td colSpan={5} class="detail-cell">
            <div class="detail">
              <dl class="kv small">
                <dt>{said.when}</dt>
                <dd>
                  <FullTime at={line.at} exact />
                </dd>
                <dt>{said.request}</dt>
                <dd class="mono">{line.request_id}</dd>
                <dt>{said.before}</dt>
                <dd>{line.before || said.nothing}</dd>
                <dt>{said.after}</dt>
                <dd>{line.after || said.nothing}</dd>
                <dt>{said.outcome}</dt>
                <dd>{line.outcome}</dd>
                <dt>{said.line}</dt>
                <dd class="mono">
                  {line.number} · {line.chain.slice(0, 16)}…
                </dd>
              </dl>
            </div>
          </td>
        </tr>
      )}
    </>
  );
}
