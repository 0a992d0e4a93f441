// One workflow: how its latest runs went, which versions are still needed, what fails most, and a form that starts one.

import "./workflows.css";
import { useEffect } from "preact/hooks";
import { mayDo, offer, type Offer, pageOffers } from "../acts";
import { pauseWorkflow, resumeWorkflow, start } from "../acts/others";
import { read, type Schemas } from "../api";
import { duration, number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActButton } from "../parts/acts";
import { Command } from "../parts/copy";
import { Icon } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { StartForm } from "../parts/start-form";
import { None, Skeleton } from "../parts/states";
import { Ago } from "../parts/time";
import { filterWord, to } from "../place";
import { may } from "../session";
import { command, target } from "../shell";
import { words } from "../words";
import { Figure, type Hold, HeldBox, shareOf, toRunsOf, type Version } from "./workflows";

type Health = Schemas["WorkflowDetail"]["health"];
type Group = Health["errors"][number];

const GROUPS_MAX = 8;

export default function WorkflowPage(props: { params: Record<string, string> }) {
  const name = props.params["workflow"] ?? "";
  return <Inside key={name} name={name} />;
}

function Inside(props: { name: string }) {
  const { name } = props;
  const said = words.workflows;
  const reading = useReading(`workflow ${name}`, (signal) => read("/api/workflows/{workflow}", { parts: { workflow: name }, signal }), 4_000);
  const holds = useReading("workflow holds", (signal) => read("/api/holds", { signal }), 5_000);
  const found = reading.data.value;
  const hold = holdOf(name, holds.data.value?.holds);
  const newest = found?.workflows[0];
  const offers: Offer[] = newest
    ? [hold ? offer(resumeWorkflow, hold.workflow) : offer(pauseWorkflow, name), offer(start, [newest])]
    : [];
  useHead(name, [{ text: words.nav.workflows, href: to("workflows") }, { text: name, isCode: true }]);
  useEffect(() => {
    pageOffers.value = offers;
  }, [newest?.version, hold?.workflow]);
  return (
    <>
      <div class="head wf-head">
        <h1 class="mono">
          <bdi>{name}</bdi>
        </h1>
        {newest && <span class="tag">{said.newest(newest.version)}</span>}
        {newest?.summary && (
          <span class="sub">
            <bdi>{newest.summary}</bdi>
          </span>
        )}
        <div class="acts">
          {offers.filter((one) => mayDo(one) && one.act.name === pauseWorkflow.name).map((one) => (
            <ActButton key={one.act.name} offer={one} />
          ))}
        </div>
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={8} label={words.reading} />}
      {hold && <HeldBox hold={hold} />}
      {found && newest && (
        <>
          <Figures name={name} health={found.health} />
          <div class={may("steer") ? "cols wf-cols" : "wf-cols"}>
            <div>
              <Versions name={name} versions={found.versions} />
              <Failures name={name} health={found.health} />
              <div class="foot">
                <Command text={command("workflow show", target(name))} />
                {newest.source && (
                  <span>
                    {said.source} <code>{newest.source}</code>
                  </span>
                )}
                {!newest.is_known_here && <span>{said.unknownCode}</span>}
              </div>
            </div>
            {may("steer") && <StartForm workflow={newest} />}
          </div>
        </>
      )}
    </>
  );
}

function holdOf(name: string, holds: Hold[] | undefined): Hold | undefined {
  return holds?.find((one) => one.workflow === name) ?? holds?.find((one) => one.workflow === null);
}

function Figures(props: { name: string; health: Health }) {
  const { name, health } = props;
  const said = words.workflows.figures;
  const ended = health.completed + health.failed;
  const window = health.is_whole ? words.workflows.window.whole : words.workflows.window.latest(number(health.runs));
  const since = `since:${health.since}`;
  const worst = health.errors[0];
  return (
    <dl class="figures">
      <div>
        <dt>
          {said.completed}, {window}
        </dt>
        <dd>
          <Figure count={health.completed} href={toRunsOf(name, `status:completed ${since}`)} />{" "}
          {ended > 0 && <small>{words.workflows.share(shareOf(health.completed, ended))}</small>}
        </dd>
      </div>
      <div>
        <dt>
          {said.failed}, {window}
        </dt>
        <dd>
          <Figure count={health.failed} href={toRunsOf(name, `status:failed,compensated,compensation_failed ${since}`)} isBad />{" "}
          {ended > 0 && <small>{words.workflows.share(shareOf(health.failed, ended))}</small>}
        </dd>
      </div>
      <div>
        <dt>{said.goingOn}</dt>
        <dd>
          <Figure count={health.going_on} href={toRunsOf(name, `status:active ${since}`)} />
        </dd>
      </div>
      <Time name={said.p50} seconds={health.p50} />
      <Time name={said.p95} seconds={health.p95} />
      <Time name={said.slowest} seconds={health.slowest} />
      {worst && (
        <div>
          <dt>{said.failsAt}</dt>
          <dd>
            <a class="path" href={toGroup(name, worst)}>
              <bdi>{worst.path || said.itself}</bdi>
            </a>{" "}
            <small>{said.of(number(worst.count), number(health.failed))}</small>
          </dd>
        </div>
      )}
    </dl>
  );
}

function Time(props: { name: string; seconds: number | null }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.seconds === null ? <span class="dim">{words.workflows.figures.none}</span> : duration(props.seconds * 1_000)}</dd>
    </div>
  );
}

function Versions(props: { name: string; versions: Version[] }) {
  const { name, versions } = props;
  const said = words.workflows;
  if (versions.length === 0) return null;
  const served = versions.filter((one) => one.served_by.length > 0).length;
  return (
    <section>
      <div class="bar">
        <h2>{said.versions}</h2>
        <span class="dim">{said.versionsSub(versions.length, served)}</span>
      </div>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={said.versions}>
        <table class="table inset ver-t">
          <colgroup>
            <col class="v-1" />
            <col class="v-2" />
            <col class="v-3" />
            <col class="v-4" />
            <col class="v-5" />
            <col />
          </colgroup>
          <thead>
            <tr>
              <th>{said.version}</th>
              <th class="num">{said.goingOn}</th>
              <th class="num">{said.redrivable}</th>
              <th>{said.workersOf}</th>
              <th class="num">{said.last}</th>
              <th>{said.retire}</th>
            </tr>
          </thead>
          <tbody>
            {versions.map((one, place) => (
              <tr key={one.version}>
                <td class={place === 0 ? "strong" : ""}>v{one.version}</td>
                <td class="num">
                  <Figure count={one.live} href={toRunsOf(name, `version:${one.version} status:active`)} />
                </td>
                <td class="num">
                  <Figure count={one.redrivable} href={toRunsOf(name, `version:${one.version} status:failed`)} />
                </td>
                <td class="two ell" title={one.served_by.join(", ")}>
                  {one.served_by.length > 0 ? one.served_by.join(", ") : <span class={one.is_unserved ? "warn-text" : "dim"}>{said.nobody}</span>}
                </td>
                <td class="num two">{one.last_at ? <Ago at={one.last_at} /> : said.never}</td>
                <td class="wrap">
                  {one.may_retire ? (
                    <span class="st st-completed">
                      <Icon name="s-completed" />
                      {said.yes}
                    </span>
                  ) : (
                    <span class={one.is_unserved ? "warn-text" : ""}>{said.no(one.reason)}</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function toGroup(name: string, group: Group): string {
  return to("errors", { q: `workflow:${filterWord(name)}`, group: group.fingerprint });
}

function Failures(props: { name: string; health: Health }) {
  const { name, health } = props;
  const said = words.workflows;
  return (
    <section>
      <div class="bar">
        <h2>{said.failures}</h2>
        {health.errors.length > 0 && (
          <a class="end small" href={to("errors", { q: `workflow:${filterWord(name)}` })}>
            {said.all}
          </a>
        )}
      </div>
      {health.errors.length === 0 && <None>{said.noFailures}</None>}
      {health.errors.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={said.failures}>
          <table class="table inset fails">
            <colgroup>
              <col />
              <col class="x-at" />
              <col class="x-n" />
              <col class="x-t" />
            </colgroup>
            <thead>
              <tr>
                <th>{words.errors.error}</th>
                <th>{words.errors.at}</th>
                <th class="num">{words.errors.runs}</th>
                <th class="num">{words.errors.last}</th>
              </tr>
            </thead>
            <tbody>
              {health.errors.slice(0, GROUPS_MAX).map((group) => (
                <tr key={group.fingerprint}>
                  <td>
                    <a class="strong" href={toGroup(name, group)} title={group.latest}>
                      <bdi>{group.message ? `${group.type}: ${group.message}` : group.type}</bdi>
                    </a>
                  </td>
                  <td class="path two">
                    <bdi>{group.path || said.figures.itself}</bdi>
                  </td>
                  <td class="num">{number(group.count)}</td>
                  <td class="num two">
                    <Ago at={group.last_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
