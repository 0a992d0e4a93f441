// One act on many runs: what it does, how far it is, and the outcome for each run.

import "./bulks.css";
import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";
import { mayDo, type Offer, offer, pageOffers } from "../acts";
import { abort, type Bulk } from "../acts/bulks";
import { read, type Schemas } from "../api";
import { duration, number } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar } from "../parts/acts";
import { termsOf } from "../parts/filter";
import { Icon, Mid, StatusMark } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { useRowKeys } from "../parts/rows";
import { None, Skeleton } from "../parts/states";
import { at, FullTime } from "../parts/time";
import { to, toRun } from "../place";
import { BulkState, reached } from "../runs/bulk-state";
import { shownAs } from "../statuses";
import { words } from "../words";

const EVERY_MS = 1_000;
const ENDED_EVERY_MS = 60_000;
const PAGE = 100;
const said = words.bulk;

type Item = Schemas["BulkItemBody"];
type Outcome = Item["outcome"];
const OUTCOMES: Outcome[] = ["refused", "before", "done"];

export default function BulkPage(props: { params: Record<string, string>; query: Record<string, string> }) {
  const name = props.params["bulk"] ?? "";
  const reading = useReading(`bulk one ${name}`, (signal) => read("/api/bulks/{bulk}", { parts: { bulk: name }, signal }), EVERY_MS);
  const bulk = reading.data.value;
  useHead(bulk ? `${said.states[bulk.state]} · ${name}` : name, [
    { text: words.nav.bulk, href: to("bulk") },
    { text: name, isCode: true },
  ]);
  return (
    <>
      <div class="head bulk-head">
        <h1 class="mono">
          <bdi>{name}</bdi>
        </h1>
        {bulk && <BulkState bulk={bulk} isBadge />}
        {bulk && bulk.matched > 0 && (
          <span class="sub">{said.whatOf(said.verbs[bulk.verb] ?? bulk.verb, number(bulk.matched), bulk.matched === 1)}</span>
        )}
      </div>
      {!bulk && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!bulk && !reading.problem.value && <Skeleton label={words.reading} />}
      {bulk && <Shown bulk={bulk} query={props.query} />}
    </>
  );
}

function Shown(props: { bulk: Bulk; query: Record<string, string> }) {
  const { bulk } = props;
  const isOver = bulk.ended_at !== null;
  const offers: Offer[] = isOver ? [] : [offer(abort, bulk)];
  useEffect(() => {
    pageOffers.value = offers.filter(mayDo);
  }, [isOver]);
  const left = Math.max(0, bulk.matched - reached(bulk));
  const share = (runs: number) => `${bulk.matched === 0 ? 0 : (100 * runs) / bulk.matched}%`;
  const verb = said.verbs[bulk.verb] ?? bulk.verb;
  const tone = bulk.state === "failed" ? "t-bad" : isOver ? "t-idle" : "t-run";
  return (
    <>
      <dl class="meta">
        <Fact name={said.by}>
          <bdi>{bulk.by || words.somebody}</bdi>
        </Fact>
        {bulk.began_at && (
          <Fact name={said.begun}>
            <FullTime at={bulk.began_at} />
          </Fact>
        )}
        {bulk.began_at && bulk.ended_at && <Fact name={said.took}>{duration(at(bulk.ended_at) - at(bulk.began_at))}</Fact>}
        {bulk.reason && (
          <Fact name={said.reason}>
            <bdi>“{bulk.reason}”</bdi>
          </Fact>
        )}
        {bulk.run_id && (
          <Fact name={said.itsRun}>
            <a href={toRun(bulk.run_id)}>
              <Mid text={bulk.run_id} />
            </a>
          </Fact>
        )}
      </dl>
      <section class={`why ${tone} gap-t`} aria-labelledby="what">
        <p class="label">
          <Icon name={isOver ? "bulk" : "s-running"} />
          {isOver ? said.whatItDid : said.whatItDoes}
        </p>
        <h2 id="what">{said.sentence(verb, bulk.where)}</h2>
        <div class="facts">
          <div class="chips">
            {termsOf(bulk.where).map((term, place) => (
              <span class="chip still" key={`${place} ${term.text}`}>
                <span class="k">{term.isNegated ? `-${term.field}` : term.field}</span>
                <span class="v">
                  <bdi>{term.value}</bdi>
                </span>
              </span>
            ))}
            <span>{bulk.where ? `${number(bulk.matched)} ${said.matchedAt}` : said.chosen}</span>
          </div>
        </div>
        <div class="bulk-bar">
          <svg
            class="meter tall"
            role="img"
            aria-label={said.bar(number(bulk.done), number(bulk.before), number(bulk.refused), number(left))}
          >
            <rect class="track" width="100%" height="100%" />
            <rect class="f-run" width={share(bulk.done)} height="100%" />
            <rect class="f-idle" x={share(bulk.done)} width={share(bulk.before)} height="100%" />
            <rect class="f-bad" x={share(bulk.done + bulk.before)} width={share(bulk.refused)} height="100%" />
          </svg>
          <span class="num">{said.doneOf(number(reached(bulk)), number(bulk.matched))}</span>
        </div>
        {!isOver && (
          <>
            <ActBar offers={offers} hasPrimary={false} />
            <p class="two small">{said.stays(number(left))}</p>
          </>
        )}
      </section>
      <dl class="figures">
        {(["done", "before", "refused"] as const).map((one) => (
          <div key={one}>
            <dt>{said.outcomes[one]}</dt>
            <dd class={one === "refused" && bulk.refused > 0 ? "bad-text" : bulk[one] === 0 ? "dim" : ""}>{number(bulk[one])}</dd>
          </div>
        ))}
        <div>
          <dt>{said.left}</dt>
          <dd class={left === 0 ? "dim" : ""}>{number(left)}</dd>
        </div>
      </dl>
      <Items bulk={bulk} query={props.query} />
    </>
  );
}

function Fact(props: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

function Items(props: { bulk: Bulk; query: Record<string, string> }) {
  const { bulk } = props;
  const { path } = useLocation();
  const outcome = OUTCOMES.find((one) => one === props.query["outcome"]);
  const after = Number(props.query["after"] ?? 0) || 0;
  const name = bulk.name ?? "";
  const list = useRowKeys<HTMLTableSectionElement>();
  const reading = useReading(
    `bulk items ${name} ${outcome ?? ""} ${after}`,
    (signal) =>
      read("/api/bulks/{bulk}/items", {
        parts: { bulk: name },
        query: { limit: PAGE, after, ...(outcome ? { outcome } : {}) } as never,
        signal,
      }),
    bulk.ended_at ? ENDED_EVERY_MS : EVERY_MS,
  );
  useEffect(() => reading.again(), [bulk.ended_at]);
  const found = reading.data.value;
  const here = (more: Record<string, string | undefined>) => to(`bulk/${encodeURIComponent(name)}`, more);
  return (
    <section aria-label={said.runs} key={path}>
      <div class="head runs-head">
        <h2>{said.runs}</h2>
        <nav class="views" aria-label={said.outcome}>
          <a href={here({})} aria-current={outcome === undefined ? "page" : undefined}>
            {said.latest}
          </a>
          {OUTCOMES.map((one) => (
            <a
              key={one}
              href={here({ outcome: one })}
              aria-current={outcome === one ? "page" : undefined}
              class={one === "refused" && bulk.refused > 0 ? "alarm" : ""}
            >
              {said.outcomes[one]} <span class="n">{number(bulk[one])}</span>
            </a>
          ))}
        </nav>
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {found?.items.length === 0 && <None>{outcome ? said.noneSuch : said.nothingYet}</None>}
      {found && found.items.length > 0 && (
        <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={said.runs}>
          <table class="table bulk-items">
            <colgroup>
              <col class="b-st" />
              <col class="b-run" />
              <col class="b-wf" />
              <col class="b-st" />
              <col />
            </colgroup>
            <thead>
              <tr>
                <th>{said.outcome}</th>
                <th>{said.run}</th>
                <th>{said.workflow}</th>
                <th>{said.status}</th>
                <th>{said.why}</th>
              </tr>
            </thead>
            <tbody ref={list}>
              {found.items.map((item) => (
                <ItemRow key={item.run_id} item={item} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found && (found.next !== null || after > 0) && (
        <div class="foot">
          <nav class="pager" aria-label={words.runs.pages}>
            {after > 0 && (
              <a class="btn sm" href={here({ outcome })}>
                <Icon name="first" />
                {said.first}
              </a>
            )}
            {found.next !== null && (
              <a class="btn sm" href={here({ outcome, after: String(found.next) })}>
                {said.more}
                <Icon name="right" />
              </a>
            )}
          </nav>
        </div>
      )}
    </section>
  );
}

const MARKS: Record<Outcome, { icon: "s-completed" | "s-skipped" | "s-failed"; look: string }> = {
  done: { icon: "s-completed", look: "completed" },
  before: { icon: "s-skipped", look: "skipped" },
  refused: { icon: "s-failed", look: "failed loud" },
};

function ItemRow(props: { item: Item }) {
  const { item } = props;
  const mark = MARKS[item.outcome];
  return (
    <tr>
      <td>
        <span class={`st st-${mark.look}`}>
          <Icon name={mark.icon} />
          {said.outcomes[item.outcome]}
        </span>
      </td>
      <td>
        <a class="id row-name" href={toRun(item.run_id)}>
          <Mid text={item.key ?? item.run_id} />
        </a>
      </td>
      <td>
        {item.workflow !== null && (
          <>
            <bdi>{item.workflow}</bdi> <span class="ver">v{item.version}</span>
          </>
        )}
      </td>
      <td>
        {item.status === "gone" ? (
          <span class="dim">{said.gone}</span>
        ) : (
          <StatusMark shown={shownAs(item.status as Schemas["RunStatus"])}>{words.statuses[shownAs(item.status as Schemas["RunStatus"])]}</StatusMark>
        )}
      </td>
      <td class="wrap">
        {item.why ? <bdi>{item.why}</bdi> : item.outcome === "refused" && said.forbids}
      </td>
    </tr>
  );
}
