// Retention and care: how long ended runs are kept, what would be deleted now, the rounds of the workers, and the backup.

import "./retention.css";
import { useState } from "preact/hooks";
import { offer, pageOffers } from "../acts";
import { erase } from "../acts/retention";
import { Problem, read, type Schemas } from "../api";
import { bytes, count, number, span } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { useEffect } from "preact/hooks";
import { ActButton } from "../parts/acts";
import { Command } from "../parts/copy";
import { Icon } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { None, Skeleton } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { to } from "../place";
import { may } from "../session";
import { command } from "../shell";
import { words } from "../words";

const said = words.retention;

type Policy = NonNullable<Schemas["RetentionBody"]["policy"]>;
type Ahead = Schemas["PruneAheadBody"];
type Outcome = keyof typeof said.outcomes;
const OUTCOMES = Object.keys(said.outcomes) as Outcome[];
const CHOICES = ["1d", "7d", "30d", "90d", "365d"];

export default function Retention() {
  const reading = useReading("retention", (signal) => read("/api/retention", { signal }), 10_000);
  useHead(words.nav.retention, [{ text: words.nav.retention }]);
  const found = reading.data.value;
  const [ended, setEnded] = useState("");
  const canAsk = found !== undefined && (found.policy !== null || ended !== "");
  const ahead = useReading(
    `retention-ahead ${canAsk} ${ended}`,
    async (signal) => (canAsk ? await read("/api/retention/ahead", { query: (ended ? { ended } : {}) as never, signal }) : null),
    Number.POSITIVE_INFINITY,
  );
  const one = offer(erase, null);
  useEffect(() => {
    pageOffers.value = [one];
  }, []);
  return (
    <>
      <div class="head">
        <h1>{words.nav.retention}</h1>
        <span class="sub">{said.sub}</span>
        {may("audit") && (
          <div class="acts">
            <ActButton offer={one} />
          </div>
        )}
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={8} label={words.reading} />}
      {found && (
        <>
          <PolicyTable policy={found.policy} due={ended === "" ? (ahead.data.value ?? undefined) : undefined} />
          <section class="section" aria-label={said.ahead}>
            <div class="bar">
              <h2>{said.ahead}</h2>
              <span class="dim">{said.aheadText}</span>
            </div>
            <div class="ahead-form">
              <div class="field">
                <label for="ahead-ended">{said.ifEnded}</label>
                <select id="ahead-ended" class="input" value={ended} onChange={(event) => setEnded(event.currentTarget.value)}>
                  <option value="">{said.byPolicy}</option>
                  {CHOICES.map((choice) => (
                    <option key={choice} value={choice}>
                      {span(Number.parseInt(choice, 10) * 86_400)}
                    </option>
                  ))}
                </select>
              </div>
              <button type="button" class="btn" onClick={() => ahead.again()}>
                {said.count}
              </button>
            </div>
            {ahead.problem.value && <ProblemBox problem={ahead.problem.value ?? new Problem({ status: -1 })} />}
            {canAsk && !ahead.data.value && !ahead.problem.value && <Skeleton rows={3} label={words.reading} />}
            {canAsk && ahead.data.value && <AheadFacts ahead={ahead.data.value} />}
            <div class="foot">
              <Command text={command("prune", ended !== "" && `--older ${ended}`, "--dry-run")} />
            </div>
          </section>
          <Rounds rounds={found.rounds} />
          <Backup backup={found.backup} />
        </>
      )}
    </>
  );
}

function PolicyTable(props: { policy: Policy | null; due: Ahead | undefined }) {
  const { policy, due } = props;
  if (policy === null)
    return (
      <section class="section" aria-label={said.policy}>
        <h2>{said.policy}</h2>
        <div class="callout t-idle">
          <Icon name="info" />
          <div>
            <b class="strong">{said.noPolicy}.</b> {said.noPolicyText}
          </div>
        </div>
      </section>
    );
  const own = Object.keys(policy.workflows).sort();
  const dueOf = (names: string[]) => names.reduce((sum, name) => sum + (due?.by_workflow[name] ?? 0), 0);
  const others = Object.keys(due?.by_workflow ?? {}).filter((name) => !own.includes(name));
  const rows: { name: string; of: Record<string, number>; due: number; isOwn: boolean }[] = [
    { name: own.length > 0 ? said.everyOther : said.everyWorkflow, of: policy.outcomes, due: dueOf(others), isOwn: false },
    ...own.map((name) => ({ name, of: policy.workflows[name] ?? {}, due: dueOf([name]), isOwn: true })),
  ];
  return (
    <section class="section" aria-label={said.policy}>
      <div class="bar">
        <h2>{said.policy}</h2>
        <span class="dim">{said.policyText}</span>
      </div>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={said.policy}>
        <table class="table inset rets">
          <colgroup>
            <col />
            {OUTCOMES.map((one) => (
              <col key={one} class="z-n" />
            ))}
            <col class="z-n" />
          </colgroup>
          <thead>
            <tr>
              <th>{said.workflow}</th>
              {OUTCOMES.map((one) => (
                <th key={one} class="num">
                  {said.outcomes[one]}
                </th>
              ))}
              <th class="num">{said.due}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <td>
                  {row.isOwn ? (
                    <a href={to(`workflows/${encodeURIComponent(row.name)}`)}>
                      <bdi>{row.name}</bdi>
                    </a>
                  ) : (
                    row.name
                  )}
                </td>
                {OUTCOMES.map((one) => (
                  <td key={one} class="num">
                    {one in row.of ? span(row.of[one] ?? 0) : <span class="dim">{said.forEver}</span>}
                  </td>
                ))}
                <td class="num">{due && (row.due > 0 ? number(row.due) : <span class="dim">0</span>)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="dim small gap-t">{said.others(span(policy.signals), span(policy.records))}</p>
    </section>
  );
}

function AheadFacts(props: { ahead: Ahead }) {
  const { ahead } = props;
  const byCount = (parts: Record<string, number>) => Object.entries(parts).sort((one, other) => other[1] - one[1]);
  return (
    <>
      <p class="why-h" aria-live="polite">
        {ahead.runs === 0 ? said.nothing : said.would(count(ahead.runs, "run"), count(ahead.trees, "tree"))}
      </p>
      {!ahead.is_whole && <p class="dim">{said.notWhole(number(ahead.seen))}</p>}
      <div class="pair-cols">
        {ahead.runs > 0 && (
          <dl class="kv">
            {byCount(ahead.by_workflow).map(([name, runs]) => (
              <Pair key={name} name={name} text={count(runs, "run")} />
            ))}
          </dl>
        )}
        {Object.keys(ahead.kept).length > 0 && (
          <section>
            <h3>{said.kept}</h3>
            <dl class="kv">
              {byCount(ahead.kept).map(([reason, runs]) => (
                <Pair key={reason} name={said.reasons[reason] ?? reason} text={count(runs, "run")} />
              ))}
            </dl>
          </section>
        )}
      </div>
    </>
  );
}

function Pair(props: { name: string; text: string }) {
  return (
    <>
      <dt class="wrap">
        <bdi>{props.name}</bdi>
      </dt>
      <dd>{props.text}</dd>
    </>
  );
}

function Rounds(props: { rounds: Schemas["PruneRoundBody"][] }) {
  return (
    <section class="section" aria-label={said.rounds}>
      <h2>{said.rounds}</h2>
      {props.rounds.length === 0 ? (
        <None>{said.noRound}</None>
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={said.rounds}>
          <table class="table inset rets">
            <thead>
              <tr>
                <th>{said.began}</th>
                <th>{said.ended}</th>
                <th class="num">{said.runs}</th>
                <th class="num">{said.trees}</th>
                <th class="num">{said.keptRuns}</th>
              </tr>
            </thead>
            <tbody>
              {props.rounds.map((one) => (
                <tr key={one.began_at}>
                  <td>
                    <Time at={one.began_at} />
                  </td>
                  <td>{one.is_running ? <RunningMark /> : one.ended_at && <Time at={one.ended_at} />}</td>
                  <td class="num">{number(one.runs)}</td>
                  <td class="num">{number(one.trees)}</td>
                  <td class="num">{number(Object.values(one.kept).reduce((sum, each) => sum + each, 0))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function RunningMark() {
  return (
    <span class="st st-running">
      <Icon name="s-running" />
      {said.underWay}
    </span>
  );
}

function Backup(props: { backup: Schemas["BackupBody"] | null }) {
  const { backup } = props;
  return (
    <section class="section" aria-label={said.backup}>
      <h2>{said.backup}</h2>
      {backup === null ? (
        <p class="dim">
          <b class="strong">{said.noBackup}.</b> {said.noBackupText}
        </p>
      ) : (
        <>
          <dl class="kv">
            <dt>{said.backupAge}</dt>
            <dd>
              <FullTime at={backup.at} />
            </dd>
            <dt>{said.backupTo}</dt>
            <dd class="mono small">
              <bdi>{backup.target}</bdi>
            </dd>
            <dt>{said.backupSize}</dt>
            <dd>{bytes(backup.size)}</dd>
          </dl>
          <p class="dim gap-t">{said.restore}</p>
        </>
      )}
      <div class="foot">
        <Command text="stepwell backup DATABASE COPY" />
      </div>
    </section>
  );
}
