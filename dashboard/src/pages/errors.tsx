// Errors: what failed, in groups with the same cause, and what can be done to all runs of a group.

import "./errors.css";
import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";
import { offer, type Offer, pageOffers } from "../acts";
import { type Group, redriveGroup, resumeRollbacks } from "../acts/groups";
import { read, type RunStatus } from "../api";
import { count, number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar } from "../parts/acts";
import { Command } from "../parts/copy";
import { FailureBox } from "../parts/failure";
import { FilterBox } from "../parts/filter";
import { Icon, Mid, StatusIcon, StatusMark } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { Empty, None, Skeleton } from "../parts/states";
import { Ago, FullTime, Time } from "../parts/time";
import { filterWord, to, toRun } from "../place";
import { command } from "../shell";
import { originOf, OWN, type Shown } from "../statuses";
import { words } from "../words";

const said = words.errors;

const SHOWN: Record<string, Shown> = { failed: "failed", compensated: "compensated", compensation_failed: "rollback_incomplete" };

export default function Errors(props: { query: Record<string, string> }) {
  const q = props.query["q"] ?? "";
  const open = props.query["group"] ?? "";
  const { route } = useLocation();
  const workflows = useReading("workflows", (signal) => read("/api/workflows", { signal }), 30_000).data.value?.workflows;
  const reading = useReading(`errors ${q}`, (signal) => read("/api/errors", { query: { q }, signal }), 5_000);
  const list = useRowKeys<HTMLTableElement>();
  useHead(q ? `${words.nav.errors}: ${q}` : words.nav.errors, [{ text: words.nav.errors }]);
  const found = reading.data.value;
  const groups = found?.groups ?? [];
  const chosen = groups.find((one) => one.fingerprint === open);
  const offers = chosen ? offersOf(chosen, q) : [];
  useEffect(() => {
    pageOffers.value = offers;
  }, [chosen?.fingerprint, chosen?.count]);
  const isFilterWrong = reading.problem.value?.code === "SW407";
  const change = (filter: string) => route(to("errors", { q: filter }));
  const total = groups.reduce((sum, one) => sum + one.count, 0);
  return (
    <>
      <div class="head">
        <h1>{words.nav.errors}</h1>
      </div>
      <FilterBox
        filter={q}
        onChange={change}
        workflows={[...new Set(workflows?.map((one) => one.name))]}
        problem={isFilterWrong ? reading.problem.value : undefined}
        count={found ? said.count(number(groups.length), count(total, "run"), groups.length === 1) : ""}
      />
      {!found && reading.problem.value && !isFilterWrong && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={8} label={words.reading} />}
      {found && groups.length === 0 && <Nothing q={q} scanned={found.scanned} onChange={change} />}
      {open && found && !chosen && <None>{said.goneGroup}</None>}
      {found && groups.length > 0 && (
        <>
          <div class="bleed scroll-x gap-t" tabIndex={0} role="region" aria-label={said.label}>
            <table class="table errs" ref={list}>
              <colgroup>
                <col />
                <col class="e-at" />
                <col class="c-wf" />
                <col class="e-n" />
                <col class="e-t" />
                <col class="e-t" />
              </colgroup>
              <thead>
                <tr>
                  <th>{said.error}</th>
                  <th>{said.at}</th>
                  <th>{said.workflow}</th>
                  <th class="num">{said.runs}</th>
                  <th class="num">{said.first}</th>
                  <th class="num">{said.last}</th>
                </tr>
              </thead>
              <tbody>
                {groups.map((group) => (
                  <Row
                    key={group.fingerprint}
                    group={group}
                    isOpen={group === chosen}
                    offers={group === chosen ? offers : []}
                    onTurn={() => route(to("errors", { q, group: group === chosen ? undefined : group.fingerprint }), true)}
                  />
                ))}
              </tbody>
            </table>
          </div>
          <div class="foot">
            {!found.is_whole && <span>{said.notWhole(number(found.scanned))}</span>}
            {found.scanned > total && <span>{said.unread(count(found.scanned - total, "run"))}</span>}
            <Command text={command("failures", q !== "" && [`--where=${q}`])} />
          </div>
        </>
      )}
    </>
  );
}

function Nothing(props: { q: string; scanned: number; onChange: (q: string) => void }) {
  if (!props.q)
    return (
      <Empty title={said.none} text={props.scanned > 0 ? said.unread(count(props.scanned, "run")) : said.noneText} command="stepwell failures">
        <a class="btn" href={to("runs")}>
          {words.runs.showAll}
        </a>
      </Empty>
    );
  return (
    <div class="empty">
      <h2>{said.nothing}</h2>
      <p>
        <code>{props.q}</code> {words.runs.nothingWhy}
      </p>
      <div class="acts">
        <button type="button" class="btn" onClick={() => props.onChange("")}>
          {said.showAll}
        </button>
      </div>
    </div>
  );
}

/** What can be done to the runs of a group, by how they ended. */
export function offersOf(group: Group, q: string): Offer[] {
  const target = { group, q };
  const [failed, incomplete] = [group.statuses["failed"] ?? 0, group.statuses["compensation_failed"] ?? 0];
  return [
    ...(incomplete > 0 ? [offer(resumeRollbacks(incomplete), target)] : []),
    ...(failed > 0 ? [offer(redriveGroup(failed), target)] : []),
  ];
}

/** The worst way in which runs of a group ended. */
function worstOf(group: Group): Shown {
  const found = ["compensation_failed", "failed", "compensated"].find((status) => status in group.statuses);
  return SHOWN[found ?? "failed"] ?? "failed";
}

function Row(props: { group: Group; isOpen: boolean; offers: Offer[]; onTurn: () => void }) {
  const { group, isOpen } = props;
  const versions = Object.keys(group.versions);
  const name = group.message ? `${group.type}: ${group.message}` : group.type;
  return (
    <>
      <tr aria-selected={isOpen}>
        <td>
          <button type="button" class="row-open row-name err-open" aria-expanded={isOpen} title={name} onClick={props.onTurn}>
            <Icon name="right" />
            <StatusIcon shown={worstOf(group)} />
            <span class="ell err-name">
              <bdi>{name}</bdi>
            </span>
          </button>
        </td>
        <td class="path two" title={group.path}>
          <bdi>{group.path || said.itself}</bdi>
        </td>
        <td>
          <bdi>{group.workflow}</bdi> <span class="ver">{versions.length === 1 ? `v${versions[0]}` : `v${versions.at(-1)}–${versions[0]}`}</span>
        </td>
        <td class="num">
          <bdi>{number(group.count)}</bdi>
        </td>
        <td class="num two">
          <Time at={group.first_at} />
        </td>
        <td class="num">
          <Time at={group.last_at} />
        </td>
      </tr>
      {isOpen && (
        <tr class="detail-row">
          <td colSpan={6} class="detail-cell">
            <Detail group={group} offers={props.offers} />
          </td>
        </tr>
      )}
    </>
  );
}

function Detail(props: { group: Group; offers: Offer[] }) {
  const { group } = props;
  const versions = byCount(group.versions);
  const [version, most] = versions[0] ?? ["", 0];
  const [one, other] = group.samples;
  return (
    <div class="detail">
      <div class="detail-grid">
        <div>
          <p class="why-h">{most === group.count ? said.allOf(group.count, Number(version)) : said.mostOf(most, group.count, Number(version))}</p>
          <ActBar offers={props.offers} isBelow />
          <h3 class="gap-t">{said.example}</h3>
          <Example group={group} />
        </div>
        <div class="stack">
          <section>
            <h3>{said.states}</h3>
            <ul class="share">
              {byCount(group.statuses).map(([status, part]) => (
                <Share
                  key={status}
                  part={part}
                  all={group.count}
                  href={to("runs", { q: group.filter.replace(/^status:\S+/, `status:${status}`) })}
                >
                  <StatusMark shown={SHOWN[status as RunStatus] ?? "failed"}>{words.statuses[SHOWN[status] ?? "failed"]}</StatusMark>
                </Share>
              ))}
            </ul>
          </section>
          <section>
            <h3>{said.versions}</h3>
            <ul class="share">
              {versions.map(([name, part]) => (
                <Share key={name} part={part} all={group.count} href={to("runs", { q: `${group.filter} version:${name}` })}>
                  v{name}
                </Share>
              ))}
            </ul>
          </section>
          <section>
            <h3>{said.newest}</h3>
            <ul class="outs">
              {group.samples.map((run) => (
                <li key={run.run_id}>
                  <StatusIcon shown={SHOWN[run.status] ?? "failed"} />
                  <a class="mono run-of" href={toRun(run.run_id)}>
                    <Mid text={run.key ?? run.run_id} />
                  </a>
                  <span class="dim end">
                    <Ago at={run.at} />
                  </span>
                </li>
              ))}
            </ul>
            <p class="gap-t">
              <a href={to("runs", { q: group.filter })} title={said.showTypeHelp}>
                {said.showType}
              </a>
              {one && other && (
                <>
                  {" · "}
                  <a href={to(`compare/${encodeURIComponent(other.run_id)}/${encodeURIComponent(one.run_id)}`)}>{said.compare}</a>
                </>
              )}
            </p>
          </section>
          <section>
            <h3>{said.group}</h3>
            <dl class="kv small">
              <dt>{said.fingerprint}</dt>
              <dd>
                <code>{group.fingerprint}</code>: {said.fingerprintOf}
              </dd>
              <dt>{said.workflow}</dt>
              <dd>
                <a href={to("errors", { q: `workflow:${filterWord(group.workflow)}` })}>
                  <bdi>{group.workflow}</bdi>
                </a>
              </dd>
              <dt>{said.first}</dt>
              <dd>
                <FullTime at={group.first_at} />
              </dd>
              <dt>{said.last}</dt>
              <dd>
                <FullTime at={group.last_at} />
              </dd>
            </dl>
          </section>
        </div>
      </div>
    </div>
  );
}

function byCount(parts: Record<string, number>): [string, number][] {
  return Object.entries(parts).sort((one, other) => other[1] - one[1]);
}

function Share(props: { part: number; all: number; href: string; children: preact.ComponentChildren }) {
  const of = words.workflows.figures.of(number(props.part), number(props.all));
  return (
    <li>
      <span>{props.children}</span>
      <svg class="meter" role="img" aria-label={of}>
        <rect class="track" width="100%" height="100%" />
        <rect class="f-done" width={`${(100 * props.part) / props.all}%`} height="100%" />
      </svg>
      <a class="num" href={props.href}>
        {of}
      </a>
    </li>
  );
}

/** The error of the latest run of a group, as it was recorded. */
function Example(props: { group: Group }) {
  const id = props.group.samples[0]?.run_id ?? "";
  const reading = useReading(`run-row ${id}`, async (signal) => (await read("/api/runs/{run}", { parts: { run: id }, signal })).run, 10_000);
  const run = reading.data.value;
  if (!run && reading.problem.value) return <ProblemBox problem={reading.problem.value} />;
  if (!run) return <Skeleton rows={3} label={words.reading} />;
  if (!run.failure) return <None>{said.isNoFailure}</None>;
  const { [OWN]: _, ...causes } = run.failure.causes;
  return <FailureBox failure={originOf(run.status === "compensation_failed" ? { ...run.failure, causes } : run.failure).failure} />;
}
