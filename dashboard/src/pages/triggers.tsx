// Triggers: workflows that events start, whether they do, and what happened to each.

import "./events.css";
import { offer } from "../acts";
import { type Trigger, triggerActs } from "../acts/triggers";
import { read, type Schemas } from "../api";
import { duration } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar } from "../parts/acts";
import { Icon } from "../parts/icon";
import { Json } from "../parts/json";
import { OpenRow } from "../parts/open-row";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { Empty, None, Skeleton } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { filterWord, to } from "../place";
import { words } from "../words";

const EVERY_MS = 5_000;
const PAGE = 50;
const said = words.triggers;
const STATES: Trigger["state"][] = ["active", "paused", "undeclared"];
const LOOKS = {
  active: { icon: "s-completed", look: "completed" },
  paused: { icon: "s-paused", look: "paused" },
  undeclared: { icon: "s-warning", look: "retrying" },
  deleted: { icon: "s-cancelled", look: "cancelled" },
} as const;

export default function Triggers(props: { query: Record<string, string> }) {
  const { topic, after } = props.query;
  const state = STATES.find((one) => one === props.query["state"]);
  useHead(words.nav.triggers, [{ text: words.nav.triggers }]);
  const list = useRowKeys<HTMLTableSectionElement>();
  const reading = useReading(
    `triggers ${state ?? ""} ${topic ?? ""} ${after ?? ""}`,
    (signal) =>
      read("/api/triggers", {
        query: { limit: PAGE, ...(state ? { state } : {}), ...(topic ? { topic } : {}), ...(after ? { after } : {}) } as never,
        signal,
      }),
    EVERY_MS,
  );
  const found = reading.data.value;
  return (
    <>
      <div class="head">
        <h1>{words.nav.triggers}</h1>
        <nav class="views" aria-label={said.state}>
          <a href={to("triggers", { topic })} aria-current={state === undefined ? "page" : undefined}>
            {words.runs.all}
          </a>
          {STATES.map((one) => (
            <a key={one} href={to("triggers", { topic, state: one })} aria-current={one === state ? "page" : undefined}>
              {said.states[one]}
            </a>
          ))}
        </nav>
        <span class="sub">{said.sub}</span>
      </div>
      {topic && (
        <p class="bar topic-picked">
          {said.topic}: <bdi class="mono">{topic}</bdi> <a href={to("triggers", { state })}>{words.events.allTopics}</a>
        </p>
      )}
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton label={words.reading} />}
      {found?.triggers.length === 0 &&
        (state || topic ? <None>{said.noneSuch}</None> : <Empty title={said.none} text={said.noneText} command="stepwell trigger ls" />)}
      {found && found.triggers.length > 0 && (
        <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.label}>
          <table class="table wide">
            <colgroup>
              <col class="v-for" />
              <col class="v-st" />
              <col class="v-n" />
              <col class="v-n" />
              <col />
              <col class="v-t" />
            </colgroup>
            <thead>
              <tr>
                <th>{said.name}</th>
                <th>{said.state}</th>
                <th>{said.topic}</th>
                <th>{said.starts}</th>
                <th>{said.problem}</th>
                <th class="num">{said.declared}</th>
              </tr>
            </thead>
            <tbody ref={list}>
              {found.triggers.map((one) => (
                <TriggerRow key={one.name} trigger={one} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found?.next && (
        <div class="foot">
          <nav class="pager" aria-label={words.runs.pages}>
            <a class="btn sm" href={to("triggers", { state, topic, after: found.next })}>
              {said.more}
              <Icon name="right" />
            </a>
          </nav>
        </div>
      )}
    </>
  );
}

function State(props: { trigger: Trigger }) {
  const { trigger } = props;
  const { icon, look } = LOOKS[trigger.state];
  return (
    <span class={`st st-${look}`}>
      <Icon name={icon} />
      <span class="ell">{trigger.state === "paused" && trigger.by ? said.pausedBy(trigger.by) : said.states[trigger.state]}</span>
    </span>
  );
}

function TriggerRow(props: { trigger: Trigger }) {
  const { trigger } = props;
  return (
    <OpenRow
      columns={6}
      name={
        <bdi class="id ell" title={trigger.name}>
          {trigger.name}
        </bdi>
      }
      cells={
        <>
          <td>
            <State trigger={trigger} />
          </td>
          <td>
            {trigger.topic && (
              <a class="id" href={to("events", { topic: trigger.topic })}>
                <bdi class="ell">{trigger.topic}</bdi>
              </a>
            )}
          </td>
          <td>
            {trigger.workflow && (
              <>
                <a href={to(`workflows/${encodeURIComponent(trigger.workflow)}`)}>
                  <bdi>{trigger.workflow}</bdi>
                </a>{" "}
                <span class="ver">v{trigger.version}</span>
              </>
            )}
          </td>
          <td>
            {trigger.unreadable ? (
              <span class="warn-text">{trigger.unreadable}</span>
            ) : trigger.failure ? (
              <bdi class="bad-text">{trigger.failure.message}</bdi>
            ) : (
              <span class="dim">{said.noProblem}</span>
            )}
          </td>
          <td class="num two">
            <Time at={trigger.declared_at} />
          </td>
        </>
      }
    >
      {() => <TriggerDetail trigger={trigger} />}
    </OpenRow>
  );
}

function sentence(trigger: Trigger): string {
  if (trigger.unreadable) return said.unreadable;
  if (trigger.state === "paused") return trigger.reason ? `${said.pausedWhy} “${trigger.reason}”` : said.pausedWhy;
  if (trigger.state === "undeclared") return said.undeclaredWhy;
  return trigger.failure ? said.failedWhy : "";
}

function TriggerDetail(props: { trigger: Trigger }) {
  const { trigger } = props;
  const reading = useReading(
    `triggers one ${trigger.name}`,
    (signal) => read("/api/triggers/{trigger}", { parts: { trigger: trigger.name }, signal }),
    EVERY_MS,
  );
  const acts: Schemas["TriggerActBody"][] = reading.data.value?.acts ?? [];
  const why = sentence(trigger);
  return (
    <div class="detail-grid">
      <div>
        {why && <p class="why-h">{why}</p>}
        <ActBar offers={triggerActs[trigger.state].map((act) => offer(act, trigger))} isBelow hasPrimary={trigger.state === "paused"} />
        {trigger.failure && (
          <dl class="kv small gap-t">
            <dt>{said.problem}</dt>
            <dd>
              <bdi>{trigger.failure.message}</bdi> <code class="code-no">{trigger.failure.code}</code>
            </dd>
            <dt>{said.event}</dt>
            <dd class="mono">{trigger.failure.event_id}</dd>
            <dt>{said.at}</dt>
            <dd>
              <FullTime at={trigger.failure.at} />
            </dd>
          </dl>
        )}
        {!trigger.unreadable && (
          <div class="gap-t">
            <h3>{said.input}</h3>
            <Json value={trigger.input} label={said.input} />
          </div>
        )}
      </div>
      <div>
        <dl class="kv small">
          <dt>{said.key}</dt>
          <dd>{trigger.key ? <code>{trigger.key}</code> : <span class="dim">{said.noKey}</span>}</dd>
          <dt>{said.dedup}</dt>
          <dd>{duration(trigger.dedup_seconds * 1_000)}</dd>
          {trigger.workflow && (
            <>
              <dt>{said.runs}</dt>
              <dd>
                <a href={to("runs", { q: `workflow:${filterWord(trigger.workflow)}` })}>{said.all}</a>
              </dd>
            </>
          )}
        </dl>
        <h3 class="gap-t">{said.history}</h3>
        <ol class="history small">
          {acts.map((act, place) => (
            <li key={`${place} ${act.at}`}>
              <Time at={act.at} />
              <span>
                {act.verb.replace(/_/g, " ")} {act.by && <bdi class="dim">{said.by(act.by)}</bdi>}
              </span>
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}
