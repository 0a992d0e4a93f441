// Events: signals that found no run or were not read, topics, the latest events, and who waits for what.

import "./events.css";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { mayDo, offer, pageOffers } from "../acts";
import { publish, redeliver, sendSignal, type Signal } from "../acts/events";
import { read, type Schemas } from "../api";
import { count, number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar, ActButton } from "../parts/acts";
import { Mid, StatusMark } from "../parts/icon";
import { isHidden, Json } from "../parts/json";
import { brief, OpenRow } from "../parts/open-row";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { None, Skeleton } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { filterWord, to, toRun } from "../place";
import { shownAs } from "../statuses";
import { words } from "../words";

const EVERY_MS = 5_000;
const LISTED_MAX = 100;
const RECENT_MAX = 50;
const said = words.events;

interface Found {
  held: Signal[];
  unread: Signal[];
  topics: Schemas["TopicBody"][];
  waits: Schemas["WaitGroupBody"][];
  recent: Schemas["PastEventBody"][];
  triggers: Schemas["TriggerBody"][];
}

async function readAll(topic: string, signal: AbortSignal): Promise<Found> {
  const limit = LISTED_MAX;
  const [held, unread, topics, waits, recent, triggers] = await Promise.all([
    read("/api/signals/held", { query: { limit }, signal }),
    read("/api/signals/unread", { query: { limit }, signal }),
    read("/api/topics", { signal }),
    read("/api/waits", { signal }),
    read("/api/events/recent", { query: { limit: RECENT_MAX, ...(topic ? { topic } : {}) } as never, signal }),
    read("/api/triggers", { query: { limit } as never, signal }),
  ]);
  return {
    held: held.signals,
    unread: unread.signals,
    topics: topics.topics,
    waits: waits.waits,
    recent: recent.events,
    triggers: triggers.triggers,
  };
}

export default function Events(props: { query: Record<string, string> }) {
  const topic = props.query["topic"] ?? "";
  useHead(words.nav.events, [{ text: words.nav.events }]);
  const reading = useReading(`events ${topic}`, (signal) => readAll(topic, signal), EVERY_MS);
  const found = reading.data.value;
  const offers = [offer(publish, topic), offer(sendSignal, { name: "", run: "" })];
  useEffect(() => {
    pageOffers.value = offers.filter(mayDo);
  }, [topic]);
  const waiting = found?.waits.reduce((sum, one) => sum + one.runs, 0) ?? 0;
  return (
    <>
      <div class="head">
        <h1>{words.nav.events}</h1>
        {found && (
          <span class="sub">
            {said.sub(said.waitingRuns(number(waiting), waiting === 1), said.signals(more(found.held), found.held.length === 1), more(found.unread))}
          </span>
        )}
        <div class="acts">
          {mayDo(offers[1]!) && <ActButton offer={offers[1]!} />}
          {mayDo(offers[0]!) && <ActButton offer={offers[0]!} isPrimary />}
        </div>
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={10} label={words.reading} />}
      {found && <Sections found={found} topic={topic} />}
    </>
  );
}

function more(signals: Signal[]): string {
  return signals.length >= LISTED_MAX ? `${number(signals.length)}+` : number(signals.length);
}

function Sections(props: { found: Found; topic: string }) {
  const { found, topic } = props;
  const list = useRowKeys<HTMLDivElement>();
  return (
    <div ref={list}>
      <Section title={said.held} about={said.heldAbout} none={found.held.length === 0 && said.noHeld}>
        <Signals label={said.held} signals={found.held} />
      </Section>
      <Section title={said.unread} about={said.unreadAbout} none={found.unread.length === 0 && said.noUnread}>
        <Signals label={said.unread} signals={found.unread} />
      </Section>
      <Section title={said.topics} none={found.topics.length === 0 && said.noTopics}>
        <Topics topics={found.topics} triggers={found.triggers} />
      </Section>
      <Section
        title={topic ? said.recentOf(topic) : said.recent}
        about={
          topic ? (
            <a href={to("events")}>{said.allTopics}</a>
          ) : (
            said.recentAbout
          )
        }
        none={found.recent.length === 0 && said.noRecent}
      >
        <Recent events={found.recent} />
      </Section>
      <Section title={said.waits} none={found.waits.length === 0 && said.noWaits}>
        <Waits waits={found.waits} />
      </Section>
    </div>
  );
}

function Section(props: { title: string; about?: ComponentChildren; none: string | false; children: ComponentChildren }) {
  return (
    <section class="section" aria-label={props.title}>
      <div class="bar">
        <h2>{props.title}</h2>
        <span class="dim">{props.about}</span>
      </div>
      {props.none ? <None>{props.none}</None> : props.children}
    </section>
  );
}

function Wide(props: { label: string; columns: string[]; heads: [string, string?][]; children: ComponentChildren }) {
  return (
    <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={props.label}>
      <table class="table wide">
        <colgroup>
          {props.columns.map((name, place) => (
            <col key={place} class={name} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {props.heads.map(([text, kind]) => (
              <th key={text} class={kind === "vh" ? "" : (kind ?? "")}>
                {kind === "vh" ? <span class="vh">{text}</span> : text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}

function Signals(props: { label: string; signals: Signal[] }) {
  return (
    <Wide
      label={props.label}
      columns={["v-n", "v-for", "v-val", "v-t", ""]}
      heads={[[said.signal], [said.for], [said.value], [said.came, "num"], [said.why]]}
    >
      {props.signals.map((one) => (
        <OpenRow
          key={one.number}
          columns={5}
          name={
            <bdi class="id ell" title={one.name}>
              {one.name}
            </bdi>
          }
          cells={
            <>
              <td>
                <For signal={one} />
              </td>
              <td class="path two">{isHidden(one.payload) ? <span class="dim">{words.json.hidden}</span> : brief(one.payload)}</td>
              <td class="num two">
                <Time at={one.sent_at} />
              </td>
              <td title={one.reason}>{why(one)}</td>
            </>
          }
        >
          {() => <SignalDetail signal={one} />}
        </OpenRow>
      ))}
    </Wide>
  );
}

function why(one: Signal): string {
  if (one.is_held) return said.heldWhy;
  return one.reason ? said.refused(one.reason) : said.ended;
}

function For(props: { signal: Signal }) {
  const { signal } = props;
  if (signal.is_held)
    return (
      <>
        {said.key}{" "}
        <a class="path" href={to("runs", { q: `key:${filterWord(signal.target)}` })}>
          <Mid text={signal.target} />
        </a>
      </>
    );
  return (
    <a class="id" href={toRun(signal.target)}>
      <Mid text={signal.target} />
    </a>
  );
}

function SignalDetail(props: { signal: Signal }) {
  const { signal } = props;
  const shown = signal.run_status ? shownAs(signal.run_status) : undefined;
  return (
    <div class="detail-grid">
      <div>
        <p class="why-h">{why(signal)}</p>
        <ActBar offers={[offer(redeliver, signal)]} isBelow />
        <div class="gap-t">
          <h3>{said.value}</h3>
          <Json value={signal.payload} label={said.value} />
        </div>
      </div>
      <div>
        <h3>{said.number(signal.number)}</h3>
        <dl class="kv small">
          <dt>{said.signal}</dt>
          <dd>
            <bdi class="mono">{signal.name}</bdi>
          </dd>
          <dt>{signal.is_held ? said.key : said.run}</dt>
          <dd>
            <For signal={signal} />
          </dd>
          {shown && (
            <>
              <dt>{said.status}</dt>
              <dd>
                <StatusMark shown={shown}>{words.statuses[shown]}</StatusMark>
              </dd>
            </>
          )}
          <dt>{said.came}</dt>
          <dd>
            <FullTime at={signal.sent_at} exact />
          </dd>
        </dl>
      </div>
    </div>
  );
}

function Topics(props: { topics: Found["topics"]; triggers: Found["triggers"] }) {
  return (
    <Wide
      label={said.topics}
      columns={["v-n", "", "v-num", "v-num", "v-num", "v-t", "v-act"]}
      heads={[[said.topic], [said.starts], [said.waiting, "num"], [said.kept, "num"], [said.published, "num"], [said.last, "num"], [said.emit, "vh"]]}
    >
      {props.topics.map((one) => {
        const started = props.triggers.filter((trigger) => trigger.topic === one.topic && trigger.state === "active");
        return (
          <tr key={one.topic}>
            <td>
              <a class="id row-name" href={to("events", { topic: one.topic })}>
                <bdi class="ell">{one.topic}</bdi>
              </a>
            </td>
            <td>
              {started.length === 0 && <span class="dim">{said.nothingListens}</span>}
              {started.map((trigger, place) => (
                <>
                  {place > 0 && ", "}
                  <a key={trigger.name} href={to("triggers", { topic: one.topic })}>
                    <bdi>{trigger.workflow}</bdi>
                  </a>
                </>
              ))}
            </td>
            <Amount value={one.waiting} />
            <Amount value={one.kept} />
            <Amount value={one.published} />
            <td class="num two">
              <Time at={one.last_at} />
            </td>
            <td class="num">{mayDo(offer(publish, one.topic)) && <ActButton offer={offer(publish, one.topic)} isSmall isQuiet />}</td>
          </tr>
        );
      })}
    </Wide>
  );
}

function Amount(props: { value: number }) {
  return <td class={`num ${props.value === 0 ? "dim" : ""}`}>{number(props.value)}</td>;
}

function Recent(props: { events: Found["recent"] }) {
  return (
    <Wide
      label={said.recent}
      columns={["v-n", "", "v-for", "v-num", "v-t", "v-t"]}
      heads={[[said.topic], [said.event], [said.deliver], [said.reached, "num"], [said.keptUntil, "num"], [said.came, "num"]]}
    >
      {props.events.map((one) => (
        <tr key={one.event_id}>
          <td>
            <a class="id row-name" href={to("events", { topic: one.topic })}>
              <bdi class="ell">{one.topic}</bdi>
            </a>
          </td>
          <td class="path two">
            <Mid text={one.event_id} />
          </td>
          <td class="two">{said.delivers[one.deliver] ?? one.deliver}</td>
          <Amount value={one.reached} />
          <td class="num two">{one.kept_until ? <Time at={one.kept_until} /> : <span class="dim">{said.notKept}</span>}</td>
          <td class="num two">
            <Time at={one.published_at} />
          </td>
        </tr>
      ))}
    </Wide>
  );
}

function Waits(props: { waits: Found["waits"] }) {
  return (
    <Wide
      label={said.waits}
      columns={["v-n", "v-st", "", "v-num", "v-t", "v-for", "v-act"]}
      heads={[[said.waitsFor], [said.kind], [said.at], [said.runs, "num"], [said.next, "num"], [said.example], [said.send, "vh"]]}
    >
      {props.waits.map((one) => {
        const name = one.names[0] ?? "";
        const act = one.kind === "topic" ? offer(publish, name) : offer(sendSignal, { name, run: one.example });
        const q = `waiting:${one.kind}${name ? `:${filterWord(name)}` : ""} workflow:${filterWord(one.workflow)} version:${one.version}`;
        return (
          <tr key={`${one.kind} ${one.names.join()} ${one.workflow} ${one.version}`}>
            <td>
              <bdi class="id ell" title={one.names.join(", ")}>
                {one.names.join(", ") || said.anySignal}
              </bdi>
            </td>
            <td class="two">{said.kinds[one.kind] ?? one.kind}</td>
            <td>
              <bdi>{one.workflow}</bdi> <span class="ver">v{one.version}</span>
            </td>
            <td class="num">
              <a class="row-name" href={to("runs", { q })} aria-label={count(one.runs, "run")}>
                {number(one.runs)}
              </a>
            </td>
            <td class="num two">{one.next_due_at ? <Time at={one.next_due_at} /> : <span class="dim">{said.never}</span>}</td>
            <td>
              <a class="id" href={toRun(one.example)}>
                <Mid text={one.example} />
              </a>
            </td>
            <td class="num">{mayDo(act) && <ActButton offer={act} isSmall isQuiet />}</td>
          </tr>
        );
      })}
    </Wide>
  );
}
