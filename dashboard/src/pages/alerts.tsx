// Alerts: what fires, the rules with their states, what happened to them, and who is told.

import "./alerts.css";
import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";
import { offer, type Offer, pageOffers } from "../acts";
import { type Alert, alertActs, isMuted, offersOf } from "../acts/alerts";
import { startable } from "../acts/others";
import { typedSpan } from "../acts/schedules";
import { read } from "../api";
import { now } from "../clock";
import { roughly, span } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar, ActButton } from "../parts/acts";
import { Command } from "../parts/copy";
import { Icon, Mid } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import type { IconName } from "../parts/sprite";
import { Empty, None, Skeleton } from "../parts/states";
import { Ago, FullTime, Time } from "../parts/time";
import { filterWord, to, toRun } from "../place";
import { may } from "../session";
import { words } from "../words";

const said = words.alerts;
const MOST = 500;
const RUNS_SHOWN = 5;
const COLUMNS = 6;

const RANKS: Record<Alert["state"], number> = { firing: 0, seen: 1, ok: 2, deleted: 3 };

/** What fires comes first, and what is muted later; then by name. */
export function inOrder(alerts: Alert[]): Alert[] {
  const rank = (one: Alert) => RANKS[one.state] + (one.state === "firing" && isMuted(one) ? 0.5 : 0);
  return [...alerts].sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name));
}

function isAge(kind: string): kind is "stalled" | "oldest_ready" {
  return kind === "stalled" || kind === "oldest_ready";
}

/** What a rule has found, as a sentence. */
export function sentenceOf(one: Alert): string {
  const within = span(one.within_seconds);
  if (isAge(one.kind)) return said.ageSentences[one.kind](said.aRun(one.workflow ?? ""), roughly(one.value * 1_000), within);
  const kind = one.kind as keyof typeof said.sentences;
  return said.sentences[kind]?.(one.workflow ?? said.anyRun, one.value, within, one.count) ?? one.rule;
}

/** What a rule has found, in a cell. */
function valueOf(one: Alert): string {
  return isAge(one.kind) ? roughly(one.value * 1_000) : String(one.value);
}

export default function Alerts(props: { query: Record<string, string> }) {
  const open = props.query["rule"] ?? "";
  const { route } = useLocation();
  const reading = useReading("alerts", (signal) => read("/api/alerts", { query: { limit: MOST } as never, signal }), 5_000);
  const workflows = useReading("workflows", (signal) => read("/api/workflows", { signal }), 30_000).data.value?.workflows;
  const list = useRowKeys<HTMLTableElement>();
  useHead(words.nav.alerts, [{ text: words.nav.alerts }]);
  const found = reading.data.value && inOrder(reading.data.value.alerts);
  const firing = found?.filter((one) => one.state === "firing" && !isMuted(one)) ?? [];
  const allFiring = found?.filter((one) => one.state === "firing").length ?? 0;
  const chosen = found?.find((one) => one.name === open);
  const make = offer(alertActs.create, startable(workflows));
  useEffect(() => {
    const main = chosen ?? firing[0];
    pageOffers.value = [...(main ? offersOf(main) : []), make];
  }, [chosen?.name, chosen?.state, firing[0]?.name, workflows?.length]);
  const seen = found?.filter((one) => one.state === "seen").length ?? 0;
  const muted = found?.filter(isMuted).length ?? 0;
  return (
    <>
      <div class="head">
        <h1>{words.nav.alerts}</h1>
        {found && found.length > 0 && <span class="sub">{said.sub(allFiring, found.length, seen, muted)}</span>}
        {may("steer") && found && found.length > 0 && (
          <div class="acts">
            <ActButton offer={make} isPrimary={firing.length === 0} />
          </div>
        )}
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={6} label={words.reading} />}
      {found?.length === 0 && (
        <Empty title={said.none} text={said.noneText} command='stepwell alert create "orders fail" --failed'>
          {may("steer") && <ActButton offer={make} isPrimary />}
        </Empty>
      )}
      {firing.map((one) => (
        <Firing key={one.name} listed={one} />
      ))}
      {found && found.length > 0 && (
        <section class="section" aria-label={said.rules}>
          <h2>{said.rules}</h2>
          <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.rules}>
            <table class="table rules" ref={list}>
              <colgroup>
                <col class="a-st" />
                <col />
                <col class="a-now" />
                <col class="a-n" />
                <col class="a-last" />
                <col class="a-act" />
              </colgroup>
              <thead>
                <tr>
                  <th>{said.state}</th>
                  <th>{said.rule}</th>
                  <th class="num">{said.now}</th>
                  <th class="num">{said.fired}</th>
                  <th class="num">{said.lastFired}</th>
                  <th>
                    <span class="vh">{said.acts}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {found.map((one) => (
                  <Row
                    key={one.name}
                    alert={one}
                    isOpen={one === chosen}
                    notifiers={reading.data.value?.notifiers ?? null}
                    onTurn={() => route(to("alerts", { rule: one === chosen ? undefined : one.name }), true)}
                  />
                ))}
              </tbody>
            </table>
          </div>
          <div class="foot">
            <Command text="stepwell alert ls" />
          </div>
        </section>
      )}
      {reading.data.value && <Notifiers names={reading.data.value.notifiers} />}
    </>
  );
}

function useAlert(name: string) {
  return useReading(`alert ${name}`, (signal) => read("/api/alerts/{alert}", { parts: { alert: name }, signal }), 5_000);
}

/** A rule that fires and that nobody has acknowledged: what it finds now, and what to do. */
function Firing(props: { listed: Alert }) {
  const reading = useAlert(props.listed.name);
  const one = reading.data.value?.alert ?? props.listed;
  const offers = offersOf(one).filter((each) => each.act !== (alertActs.remove as unknown));
  return (
    <section class="why t-bad firing" aria-label={one.name}>
      <p class="label">
        <Icon name="alerts" />
        <span>
          <bdi>{one.name}</bdi>. {said.firingSince} {one.since ? <Time at={one.since} /> : ""}
          {one.since && `, ${roughly(now() - Date.parse(one.since))}`}, {said.notSeen}
        </span>
      </p>
      <h2>
        <bdi>{sentenceOf(one)}</bdi>
      </h2>
      <div class="facts">
        <Runs alert={one} />
        <p>{said.onceMore}</p>
      </div>
      <ActBar offers={offers} />
    </section>
  );
}

/** The filter that finds the runs of a rule, if one can. */
export function filterOf(one: Alert): string {
  const of = one.workflow ? `workflow:${filterWord(one.workflow)} ` : "";
  switch (one.kind) {
    case "failed":
    case "count":
      return `${of}status:failed,compensated,rollback_incomplete since:${typedSpan(one.within_seconds)}`;
    case "consecutive":
      return `${of}status:failed,compensated,rollback_incomplete`;
    case "rollback_incomplete":
      return `${of}status:rollback_incomplete`;
    default:
      return "";
  }
}

function Runs(props: { alert: Alert }) {
  const { runs } = props.alert;
  const filter = filterOf(props.alert);
  if (runs.length === 0) return null;
  return (
    <p class="about-runs">
      {said.runs}{" "}
      {runs.slice(0, RUNS_SHOWN).map((run, place) => (
        <span key={run}>
          {place > 0 && ", "}
          <a class="mono small run-of" href={toRun(run)}>
            <Mid text={run} />
          </a>
        </span>
      ))}
      {runs.length > RUNS_SHOWN && <span class="dim"> {said.more(runs.length - RUNS_SHOWN)}</span>}
      {filter && (
        <>
          {". "}
          <a href={to("runs", { q: filter })}>{said.showRuns}</a>
        </>
      )}
    </p>
  );
}

function stateOf(one: Alert): [IconName, string, string] {
  if (one.unreadable) return ["s-failed", "st-failed loud", said.unreadable("").replace(/: $/, "")];
  if (one.state === "firing" && isMuted(one)) return ["s-paused", "st-paused", said.firingMuted];
  if (one.state === "firing") return ["s-failed", "st-failed loud", said.states.firing];
  if (one.state === "seen") return ["s-warning", "st-warning", said.states.seen];
  return isMuted(one) ? ["s-paused", "st-paused", said.mutedNow] : ["s-completed", "st-completed", said.states[one.state]];
}

function Row(props: { alert: Alert; isOpen: boolean; notifiers: string[] | null; onTurn: () => void }) {
  const { alert, isOpen } = props;
  const [icon, tone, word] = stateOf(alert);
  const quick: Offer[] = offersOf(alert).filter((each) => !each.act.isDangerous && each.act.name !== "acknowledge_alert");
  return (
    <>
      <tr aria-selected={isOpen}>
        <td>
          <span class={`st ${tone}`}>
            <Icon name={icon} />
            {word}
          </span>
        </td>
        <td>
          <span class="cell-run">
            <button type="button" class="row-open row-name" aria-expanded={isOpen} title={`${alert.name}. ${alert.rule}`} onClick={props.onTurn}>
              <Icon name="right" />
              <span class="strong name ell">
                <bdi>{alert.name}</bdi>
              </span>
            </button>
            <span class="two ell">{alert.unreadable ? said.unreadable(alert.unreadable) : alert.rule}</span>
            <span class="title">{alert.by ? said.byPerson(alert.by) : said.byCode}</span>
          </span>
        </td>
        <td class="num">{alert.state === "ok" ? <span class="dim">{valueOf(alert)}</span> : <span class="strong">{valueOf(alert)}</span>}</td>
        <td class="num two">{said.times(alert.fired)}</td>
        <td class="num two">{alert.last_at ? <Time at={alert.last_at} /> : <span class="dim">{said.never}</span>}</td>
        <td class="num">
          {may("steer") && (
            <span class="acts nowrap-row row-acts">
              {quick.map((one) => (
                <ActButton key={one.act.name} offer={one} isSmall />
              ))}
            </span>
          )}
        </td>
      </tr>
      {isOpen && (
        <tr class="detail-row">
          <td class="detail-cell" colSpan={COLUMNS}>
            <div class="detail">
              <Detail listed={alert} notifiers={props.notifiers} />
            </div>
          </td>
        </tr>
      )}
    </>
  );
}

type Act = { at: string; verb: string; by: string; details: unknown };

function Detail(props: { listed: Alert; notifiers: string[] | null }) {
  const reading = useAlert(props.listed.name);
  const one = reading.data.value?.alert ?? props.listed;
  const acts = reading.data.value?.acts;
  const tested = acts?.find((act) => act.verb === "tested");
  return (
    <div class="alert-grid">
      <div class="stack">
        <div>
          <p class="why-h">
            <bdi>{one.state === "ok" ? one.rule : sentenceOf(one)}</bdi>
          </p>
          {one.state !== "ok" && <Runs alert={one} />}
          <dl class="kv small gap-t">
            {one.state === "seen" && (
              <>
                <dt>{said.known}</dt>
                <dd>
                  <bdi>
                    {one.note || said.states.seen} ({said.seenBy(one.seen_by)})
                  </bdi>
                </dd>
              </>
            )}
            {isMuted(one) && one.muted_until && (
              <>
                <dt>{said.mutedUntil}</dt>
                <dd>
                  <FullTime at={one.muted_until} /> <bdi>{said.mutedBy(one.muted_by)}</bdi>
                  {one.note && one.state !== "seen" && <bdi>: {one.note}</bdi>}
                </dd>
              </>
            )}
          </dl>
        </div>
        <ActBar offers={offersOf(one)} hasPrimary={one.state === "firing"} />
        {tested && <Test act={tested} notifiers={props.notifiers} />}
      </div>
      <section>
        <h3>{said.history}</h3>
        {!acts && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
        {!acts && !reading.problem.value && <Skeleton rows={3} label={words.reading} />}
        {acts?.length === 0 && <None>{said.noHistory}</None>}
        <ol class="history small">
          {acts?.map((act, place) => (
            <li key={`${act.at} ${place}`}>
              <Time at={act.at} />
              <Done act={act} />
            </li>
          ))}
        </ol>
      </section>
    </div>
  );
}

function detailsOf(act: Act): Record<string, unknown> {
  return typeof act.details === "object" && act.details !== null ? (act.details as Record<string, unknown>) : {};
}

function Done(props: { act: Act }) {
  const { act } = props;
  const details = detailsOf(act);
  const verb = said.verbs[act.verb] ?? act.verb;
  const runs = Array.isArray(details["runs"]) ? (details["runs"] as string[]) : [];
  return (
    <span>
      {act.verb === "firing" ? <b class="bad-text strong">{verb}</b> : act.verb === "ok" ? <b class="good-text strong">{verb}</b> : verb}
      {act.by && <bdi> {said.by(act.by)}</bdi>}
      {typeof details["seconds"] === "number" && ` ${said.forSpan(span(details["seconds"]))}`}
      {typeof details["rule"] === "string" && <bdi>: {details["rule"]}</bdi>}
      {typeof details["note"] === "string" && details["note"] !== "" && <bdi>: {details["note"]}</bdi>}
      {act.verb === "firing" && runs[0] && (
        <>
          {", "}
          <a class="mono run-of" href={toRun(runs[0])}>
            <Mid text={runs[0]} />
          </a>
        </>
      )}
      {details["told"] === false && (act.verb === "firing" || act.verb === "ok") && <span class="dim"> ({said.toldNobody})</span>}
    </span>
  );
}

/** What became of the last test: which notifiers have not taken it. */
function Test(props: { act: Act; notifiers: string[] | null }) {
  const { act, notifiers } = props;
  const run = String(detailsOf(act)["run"] ?? "");
  const reading = useReading(
    `alert-test ${run}`,
    async (signal) => {
      const [told, dead, owed] = await Promise.all([
        read("/api/runs/{run}", { parts: { run }, signal }),
        read("/api/dead-letters", { query: { kind: "event", run } as never, signal }),
        read("/api/outbox", { query: { limit: MOST } as never, signal }),
      ]);
      const left = [
        ...dead.letters.map((one) => ({ sink: one.target, why: one.reason, isOver: true })),
        ...owed.events.filter((one) => one.run_id === run).map((one) => ({ sink: one.sink, why: one.failure, isOver: false })),
      ];
      return { status: told.run.status, left };
    },
    3_000,
  );
  const found = reading.data.value;
  const isDone = found?.status === "completed";
  return (
    <section>
      <h3>{said.lastTest}</h3>
      {found && <p>{!isDone ? said.testRuns : found.left.length > 0 ? said.testOwed(found.left.length) : notifiers?.length === 0 ? said.testNobody : said.testTold}</p>}
      <ul class="terms">
        {found?.left.map((one) => (
          <li key={one.sink}>
            <Icon name={one.isOver ? "s-failed" : "s-retrying"} />
            <span>
              <b class="strong">
                <bdi>{one.sink}</bdi>
              </b>
              {one.why && <bdi>: {one.why}</bdi>} <span class="dim">({one.isOver ? said.gaveUp : said.willRetry})</span>
            </span>
          </li>
        ))}
      </ul>
      <dl class="kv small">
        <dt>{said.testBy}</dt>
        <dd>
          <bdi>{act.by || words.somebody}</bdi>, <Ago at={act.at} />
        </dd>
        <dt>{said.testRun}</dt>
        <dd>
          <a class="mono" href={toRun(run)}>
            <bdi>{run}</bdi>
          </a>
        </dd>
      </dl>
    </section>
  );
}

function Notifiers(props: { names: string[] | null }) {
  const { names } = props;
  if (names === null) return null;
  return (
    <section class="section" aria-label={said.notifiers}>
      <h2>{said.notifiers}</h2>
      {names.length === 0 ? (
        <div class="callout t-warn">
          <Icon name="s-warning" />
          <div>
            <b class="strong">{said.noNotifier}.</b> {said.noNotifierText}
          </div>
        </div>
      ) : (
        <p class="dim">{said.notifiersOf}</p>
      )}
      <ul class="terms notifiers">
        {names.map((name) => (
          <li key={name}>
            <Icon name="alerts" />
            <bdi class="strong">{name}</bdi>
          </li>
        ))}
        <li>
          <Icon name="alerts" />
          <span>
            <span class="strong">{said.log}</span> <span class="dim">{said.logText}</span>
          </span>
        </li>
      </ul>
    </section>
  );
}

