// Outbox: events that workflows emitted, and that sinks have not received.

import "./events.css";
import { offer } from "../acts";
import { dropEvent, type Owed, replayEvent } from "../acts/outbox";
import { read, type Schemas } from "../api";
import { number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar } from "../parts/acts";
import { Icon, Mid } from "../parts/icon";
import { Json } from "../parts/json";
import { OpenRow } from "../parts/open-row";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { Empty, None, Skeleton } from "../parts/states";
import { Ago, FullTime, Time } from "../parts/time";
import { to, toRun } from "../place";
import { words } from "../words";

const EVERY_MS = 3_000;
const PAGE = 50;
const DEAD_MAX = 20;
const said = words.outbox;

type Sink = Schemas["SinkUseBody"];

interface Found {
  sinks: Sink[];
  pending: Schemas["OutboxPage"];
  dead: Schemas["OutboxPage"];
}

async function readAll(after: number, signal: AbortSignal): Promise<Found> {
  const [sinks, pending, dead] = await Promise.all([
    read("/api/outbox/sinks", { signal }),
    read("/api/outbox", { query: { limit: PAGE, after }, signal }),
    read("/api/outbox/dead", { query: { limit: DEAD_MAX }, signal }),
  ]);
  return { sinks: sinks.sinks, pending, dead };
}

export default function Outbox(props: { query: Record<string, string> }) {
  const after = Number(props.query["after"] ?? 0) || 0;
  useHead(words.nav.outbox, [{ text: words.nav.outbox }]);
  const reading = useReading(`outbox ${after}`, (signal) => readAll(after, signal), EVERY_MS);
  const list = useRowKeys<HTMLDivElement>();
  const found = reading.data.value;
  return (
    <div ref={list}>
      <div class="head">
        <h1>{words.nav.outbox}</h1>
        <span class="sub">{said.sub}</span>
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton label={words.reading} />}
      {found && found.sinks.length === 0 && after === 0 && <Empty title={said.none} text={said.noneText} command="stepwell outbox ls" />}
      {found && (found.sinks.length > 0 || after > 0) && (
        <>
          <Sinks sinks={found.sinks} />
          <section class="section" aria-label={said.events}>
            <div class="bar">
              <h2>{said.events}</h2>
            </div>
            {found.pending.events.length === 0 ? <None>{said.noPending}</None> : <OwedTable label={said.events} events={found.pending.events} />}
            {(found.pending.next !== null || after > 0) && (
              <div class="foot">
                <nav class="pager" aria-label={words.runs.pages}>
                  {after > 0 && (
                    <a class="btn sm" href={to("outbox")}>
                      <Icon name="first" />
                      {said.first}
                    </a>
                  )}
                  {found.pending.next !== null && (
                    <a class="btn sm" href={to("outbox", { after: String(found.pending.next) })}>
                      {said.more}
                      <Icon name="right" />
                    </a>
                  )}
                </nav>
              </div>
            )}
          </section>
          <section class="section" aria-label={said.deadEvents}>
            <div class="bar">
              <h2>{said.deadEvents}</h2>
              <span class="dim">{said.deadAbout}</span>
              {found.dead.events.length > 0 && (
                <a class="end small" href={to("dead-letters", { kind: "event" })}>
                  {said.letters}
                </a>
              )}
            </div>
            {found.dead.events.length === 0 ? <None>{said.noDead}</None> : <OwedTable label={said.deadEvents} events={found.dead.events} isDead />}
          </section>
        </>
      )}
    </div>
  );
}

function Sinks(props: { sinks: Sink[] }) {
  return (
    <section class="section" aria-label={said.sinks}>
      <div class="bar">
        <h2>{said.sinks}</h2>
      </div>
      <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.sinks}>
        <table class="table wide">
          <colgroup>
            <col class="v-for" />
            <col class="v-num" />
            <col class="v-t" />
            <col class="v-t" />
            <col class="v-t" />
            <col />
          </colgroup>
          <thead>
            <tr>
              <th>{said.sink}</th>
              <th class="num">{said.pending}</th>
              <th class="num">{said.failing}</th>
              <th class="num">{said.oldest}</th>
              <th class="num">{said.dead}</th>
              <th>{said.failure}</th>
            </tr>
          </thead>
          <tbody>
            {props.sinks.map((one) => (
              <tr key={one.sink}>
                <td>
                  <bdi class="id ell">{one.sink}</bdi>
                </td>
                <td class={`num ${one.pending === 0 ? "dim" : ""}`}>{number(one.pending)}</td>
                <td class={`num ${one.failing === 0 ? "dim" : "warn-text"}`}>{number(one.failing)}</td>
                <td class="num two">{one.oldest_at && <Ago at={one.oldest_at} />}</td>
                <td class={`num ${one.dead === 0 ? "dim" : ""}`}>
                  {one.dead === 0 ? 0 : <a class="bad-text" href={to("dead-letters", { kind: "event" })}>{number(one.dead)}</a>}
                </td>
                <td title={one.failure}>{one.failure ? <bdi>{one.failure}</bdi> : <span class="dim">{said.noFailure}</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function OwedTable(props: { label: string; events: Owed[]; isDead?: boolean }) {
  return (
    <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={props.label}>
      <table class="table wide">
        <colgroup>
          <col class="v-for" />
          <col class="v-st" />
          <col class="v-n" />
          <col class="v-num" />
          <col />
          <col class="v-t" />
        </colgroup>
        <thead>
          <tr>
            <th>{said.name}</th>
            <th>{said.sink}</th>
            <th>{said.run}</th>
            <th class="num">{said.attempts}</th>
            <th>{said.why}</th>
            <th class="num">{props.isDead ? said.died : said.next}</th>
          </tr>
        </thead>
        <tbody>
          {props.events.map((one) => (
            <OwedRow key={one.number} event={one} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OwedRow(props: { event: Owed }) {
  const { event } = props;
  return (
    <OpenRow
      columns={6}
      name={
        <bdi class="id ell" title={event.name}>
          {event.name}
        </bdi>
      }
      cells={
        <>
          <td>
            <bdi class="ell">{event.sink}</bdi>
          </td>
          <td>
            <a class="id" href={toRun(event.run_id)}>
              <Mid text={event.key ?? event.run_id} />
            </a>
          </td>
          <td class={`num ${event.attempts === 0 ? "dim" : ""}`}>{number(event.attempts)}</td>
          <td title={event.failure}>{event.failure ? <bdi>{event.failure}</bdi> : <span class="dim">{said.noFailure}</span>}</td>
          <td class="num two">{event.died_at ? <Time at={event.died_at} /> : event.next_at ? <Ago at={event.next_at} /> : said.queued}</td>
        </>
      }
    >
      {() => (
        <div class="detail-grid">
          <div>
            {event.failure && (
              <p class="why-h">
                <bdi>{event.failure}</bdi>
              </p>
            )}
            <ActBar offers={[...(event.died_at ? [offer(replayEvent, event)] : []), offer(dropEvent, event)]} isBelow />
            <div class="gap-t">
              <h3>{said.payload}</h3>
              <Json value={event.payload} label={said.payload} />
            </div>
          </div>
          <dl class="kv small">
            <dt>{said.id}</dt>
            <dd class="mono">{event.event_id}</dd>
            <dt>{said.run}</dt>
            <dd>
              <a href={toRun(event.run_id, { at: event.path })}>
                <bdi>{event.key ?? event.run_id}</bdi>
              </a>{" "}
              <bdi class="dim">{event.workflow}</bdi>
            </dd>
            <dt>{said.path}</dt>
            <dd class="mono">{event.path}</dd>
            <dt>{said.at}</dt>
            <dd>
              <FullTime at={event.at} exact />
            </dd>
          </dl>
        </div>
      )}
    </OpenRow>
  );
}
