// Compare: two runs side by side, path by path, with their first difference.

import "./compare.css";
import { useLocation } from "preact-iso";
import { useRef, useState } from "preact/hooks";
import { type Entry, read, type Run, type Schemas } from "../api";
import { duration, number } from "../formats";
import { useHead } from "../head";
import { useKeys } from "../keys";
import { useReading } from "../live";
import { Command } from "../parts/copy";
import { FailureBox } from "../parts/failure";
import { Icon, Mid, StatusIcon } from "../parts/icon";
import { Json } from "../parts/json";
import { ProblemBox } from "../parts/problem";
import { Skeleton } from "../parts/states";
import { Time, Took } from "../parts/time";
import { to, toRun } from "../place";
import { session } from "../session";
import { command, target } from "../shell";
import { shownOf, summaryOf, wordOf } from "../statuses";
import { words } from "../words";

type Difference = Schemas["DifferenceBody"];
type Place = Schemas["ComparedBody"];

const said = words.compare;
const SHOWN_MAX = 500;

/** The address of a comparison. */
export function toCompare(left: string, right: string, at?: string): string {
  return to(`compare/${encodeURIComponent(left)}/${encodeURIComponent(right)}`, { at });
}

export default function Compare(props: { params: Record<string, string>; query: Record<string, string> }) {
  const { left, right } = props.params;
  if (left !== undefined && right !== undefined)
    return <Compared key={`${left} ${right}`} left={left} right={right} at={props.query["at"]} />;
  return <Choose left={props.query["left"] ?? ""} />;
}

/** A page without runs asks for them. */
function Choose(props: { left: string }) {
  useHead(words.nav.compare, [{ text: words.nav.runs, href: to("runs") }, { text: words.nav.compare }]);
  return (
    <>
      <div class="head">
        <h1>{words.nav.compare}</h1>
        <span class="sub">{said.about}</span>
      </div>
      <p class="gap-b">{said.teach}</p>
      <Command text="stepwell diff RUN RUN" />
      <Picker left={props.left} right="" />
    </>
  );
}

/** Which runs. What was typed stays, also if there is no such run. */
function Picker(props: { left: string; right: string }) {
  const { route } = useLocation();
  const [left, setLeft] = useState(props.left);
  const [right, setRight] = useState(props.right);
  const field = (id: string, label: string, value: string, change: (text: string) => void) => (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        class="input mono"
        id={id}
        value={value}
        required
        aria-describedby="compare-help"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </div>
  );
  return (
    <form
      class="pick gap-t"
      onSubmit={(event) => {
        event.preventDefault();
        route(toCompare(left.trim(), right.trim()));
      }}
    >
      {field("compare-left", said.left, left, setLeft)}
      {field("compare-right", said.right, right, setRight)}
      <button type="submit" class="btn primary">
        {said.go}
      </button>
      <p class="help" id="compare-help">
        {said.help}
      </p>
    </form>
  );
}

function nameOf(run: Run): string {
  return run.key ?? run.run_id;
}

function differs(place: Place): boolean {
  return place.left === null || place.right === null || place.changes.length > 0;
}

function Compared(props: { left: string; right: string; at: string | undefined }) {
  const { left, right } = props;
  const { route } = useLocation();
  const [isShort, setShort] = useState(false);
  const reading = useReading(
    `compare ${left} ${right} ${isShort}`,
    (signal) => read("/api/compare/{left}/{right}", { parts: { left, right }, query: { all: !isShort, limit: SHOWN_MAX }, signal }),
    10_000,
  );
  const found = reading.data.value;
  const names: [string, string] = found ? [nameOf(found.left), nameOf(found.right)] : [left, right];
  useHead(`${words.nav.compare}: ${names[0]}, ${names[1]}`, [
    { text: words.nav.runs, href: to("runs") },
    { text: names[0], href: toRun(left), isCode: true },
    { text: names[1], isCode: true },
  ]);
  return (
    <>
      <div class="head">
        <h1>{words.nav.compare}</h1>
        <span class="sub">{said.about}</span>
        <div class="acts">
          <a class="btn" href={toCompare(right, left, props.at)}>
            {said.swap}
          </a>
        </div>
      </div>
      {!found && reading.problem.value && (
        <>
          <ProblemBox problem={reading.problem.value} again={() => reading.again()} />
          <Picker left={left} right={right} />
        </>
      )}
      {!found && !reading.problem.value && <Skeleton rows={10} label={words.reading} />}
      {found && (
        <>
          <Sentence found={found} line={command("diff", target(left, right))} />
          <Paths
            found={found}
            names={names}
            at={props.at}
            isShort={isShort}
            onShort={setShort}
            onChoose={(path) => route(toCompare(left, right, path), true)}
          />
        </>
      )}
    </>
  );
}

/** What a comparison says, in a sentence and the facts after it. */
export function summaryWords(found: Difference): { begin: string; path: string } {
  if (found.left.run_id === found.right.run_id) return { begin: said.isSameRun, path: "" };
  if (found.is_same) return { begin: said.same, path: "" };
  if (found.parts_at === null) return { begin: said.onlyFacts, path: "" };
  return { begin: said.until, path: found.parts_at };
}

function Sentence(props: { found: Difference; line: string }) {
  const { found } = props;
  const { begin, path } = summaryWords(found);
  const facts = Object.keys(found.facts).map((name) => said.facts[name] ?? name);
  const [waitsLeft = [], waitsRight = []] = found.waits;
  return (
    <section class="why t-idle" aria-label={said.sentence}>
      <p class="label">
        <Icon name="info" />
        {said.sentence}
      </p>
      <h2>
        {begin}
        {path && (
          <>
            {" "}
            <code>
              <bdi>{path}</bdi>
            </code>
            .
          </>
        )}
      </h2>
      <ul class="facts">
        <li>{said.counts(found.equal, number(found.equal), found.differing, number(found.differing))}</li>
        {facts.length > 0 && <li>{said.factsDiffer(facts.join(", "))}</li>}
        {waitsLeft.join() !== waitsRight.join() && <Waits name={nameOf(found.left)} paths={waitsLeft} />}
        {waitsLeft.join() !== waitsRight.join() && <Waits name={nameOf(found.right)} paths={waitsRight} />}
        {session.value?.sees_payloads === false && <li>{said.hidden}</li>}
      </ul>
      <Command text={props.line} />
    </section>
  );
}

function Waits(props: { name: string; paths: string[] }) {
  if (props.paths.length === 0) return null;
  return (
    <li>
      <bdi>{props.name}</bdi> {said.waitsAt}{" "}
      {props.paths.map((path) => (
        <code key={path}>
          <bdi>{path}</bdi>{" "}
        </code>
      ))}
    </li>
  );
}

function Paths(props: {
  found: Difference;
  names: [string, string];
  at: string | undefined;
  isShort: boolean;
  onShort: (isShort: boolean) => void;
  onChoose: (path: string) => void;
}) {
  const { found } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const paths = found.places;
  const at = props.at ?? found.parts_at ?? undefined;
  const chosen = paths.find((one) => one.path === at) ?? (props.at === undefined ? paths[0] : undefined);
  const rows = () => [...(body.current?.querySelectorAll<HTMLElement>("button.cmp-path") ?? [])];
  const go = (place: Place | undefined) => {
    if (!place) return;
    props.onChoose(place.path);
    rows()[paths.indexOf(place)]?.focus();
  };
  const move = (step: number) => go(paths[Math.min(paths.length - 1, Math.max(0, (chosen ? paths.indexOf(chosen) : -1) + step))]);
  const jump = (step: 1 | -1) => {
    for (let index = (chosen ? paths.indexOf(chosen) : -1) + step; index >= 0 && index < paths.length; index += step) {
      const place = paths[index];
      if (place && differs(place)) return go(place);
    }
    go(chosen);
  };
  useKeys({ n: () => jump(1), p: () => jump(-1), j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
  const all = props.isShort ? found.differing : found.equal + found.differing;
  return (
    <>
      <div class="cmp-wrap bleed">
        <div class="tools">
          <label>
            <input type="checkbox" checked={props.isShort} onChange={(event) => props.onShort(event.currentTarget.checked)} />
            {said.onlyDifferences}
          </label>
          {found.differing > 0 && (
            <span class="end row">
              <button type="button" class="btn quiet sm" onClick={() => jump(-1)}>
                <Icon name="up" />
                {said.previous}
              </button>
              <button type="button" class="btn quiet sm" onClick={() => jump(1)}>
                {said.next}
                <Icon name="down" />
              </button>
            </span>
          )}
        </div>
        <div class="scroll-x" tabIndex={0} role="region" aria-label={said.label(...props.names)}>
          <table class="table cmp" aria-label={said.label(...props.names)}>
            <colgroup>
              <col class="p-path" />
              <col />
              <col class="p-mk" />
              <col />
            </colgroup>
            <thead>
              <tr>
                <th>{said.path}</th>
                <th>
                  <RunHead run={found.left} />
                </th>
                <th>
                  <span class="vh">{said.mark}</span>
                </th>
                <th>
                  <RunHead run={found.right} />
                </th>
              </tr>
            </thead>
            <tbody ref={body}>
              {Object.entries(found.facts).map(([name, values]) => (
                <FactRow key={name} name={name} values={name === "status" ? [wordOf(found.left), wordOf(found.right)] : values} />
              ))}
              {paths.map((place) => (
                <PathRow
                  key={place.path}
                  place={place}
                  isFirst={place.path === found.parts_at}
                  isChosen={place === chosen}
                  onChoose={() => props.onChoose(place.path)}
                />
              ))}
            </tbody>
          </table>
        </div>
        {all > paths.length && <p class="none pad-x">{said.cut(number(paths.length), number(all))}</p>}
      </div>
      {chosen && <Pair place={chosen} names={props.names} />}
      <Facts found={found} names={props.names} />
    </>
  );
}

function RunHead(props: { run: Run }) {
  const { run } = props;
  return (
    <span class="cmp-head">
      <StatusIcon shown={shownOf(run)} />
      <a class="mono" href={toRun(run.run_id)}>
        <Mid text={nameOf(run)} />
      </a>
      <span class="two">
        v{run.version} · <Time at={run.created_at} />
        {run.started_at && (
          <>
            {" · "}
            <Took from={run.started_at} until={run.ended_at} />
          </>
        )}
      </span>
    </span>
  );
}

function Mark(props: { differs: boolean }) {
  return (
    <td class="mk">
      <span class={props.differs ? "ne" : "eq"} aria-hidden="true">
        {props.differs ? "≠" : "="}
      </span>
      <span class="vh">{props.differs ? said.differs : said.equal}</span>
    </td>
  );
}

function FactRow(props: { name: string; values: unknown[] }) {
  const side = (value: unknown) => (
    <td class="sd">
      <bdi>{value === null || value === undefined ? <span class="dim">{said.nothing}</span> : brief(value)}</bdi>
    </td>
  );
  return (
    <tr class="differs fact">
      <td class="strong">{said.facts[props.name] ?? props.name}</td>
      {side(props.values[0])}
      <Mark differs />
      {side(props.values[1])}
    </tr>
  );
}

const BRIEF_MAX = 200;

function brief(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > BRIEF_MAX ? `${text.slice(0, BRIEF_MAX)}…` : text;
}

function PathRow(props: { place: Place; isFirst: boolean; isChosen: boolean; onChoose: () => void }) {
  const { place } = props;
  const isDifferent = differs(place);
  return (
    <>
      {props.isFirst && (
        <tr class="first-mark">
          <td colSpan={4}>{said.first}</td>
        </tr>
      )}
      <tr class={isDifferent ? "differs" : ""} aria-selected={props.isChosen}>
        <td>
          <button
            type="button"
            class="row-open cmp-path"
            tabIndex={props.isChosen ? 0 : -1}
            aria-current={props.isChosen ? "true" : undefined}
            title={place.path}
            onClick={props.onChoose}
          >
            <span class="path ell">
              <bdi>{place.path}</bdi>
            </span>
          </button>{" "}
          {place.changes.length > 0 && <span class="dim small">{place.changes.map((one) => said.changes[one] ?? one).join(", ")}</span>}
        </td>
        <Side entry={place.left} />
        <Mark differs={isDifferent} />
        <Side entry={place.right} slower={place.left && place.right ? place.slower_by : 0} />
      </tr>
    </>
  );
}

const TIMED_SECONDS = 0.1;

function Side(props: { entry: Entry | null; slower?: number }) {
  const { entry, slower = 0 } = props;
  if (!entry)
    return (
      <td class="sd">
        <span class="side-in dim">
          <Icon name="s-skipped" />
          {said.notReached}
        </span>
      </td>
    );
  const isUndo = entry.kind === "undo";
  const shown = entry.failure ? "failed" : isUndo ? "compensated" : "completed";
  return (
    <td class="sd">
      <span class="side-in">
        <StatusIcon shown={shown} />
        <span class="ell">
          <bdi>{entry.unreadable || (entry.failure ? summaryOf(entry.failure) : resultOf(entry))}</bdi>
        </span>
        <span class="dim end nowrap">
          {entry.attempts > 1 && <>{said.tries(entry.attempts)} · </>}
          {duration(entry.took * 1_000)}
          {Math.abs(slower) >= TIMED_SECONDS && (
            <span class="vh">, {(slower > 0 ? said.slower : said.faster)(duration(Math.abs(slower) * 1_000))}</span>
          )}
        </span>
      </span>
    </td>
  );
}

function resultOf(entry: Entry): string {
  if (entry.value === null || entry.value === undefined) return words.kinds[entry.kind] ?? entry.kind;
  return brief(entry.value);
}

/** The selected path, whole, on both sides. */
function Pair(props: { place: Place; names: [string, string] }) {
  const { place, names } = props;
  return (
    <section class="section" aria-label={place.path}>
      <div class="bar">
        <h2 class="mono">
          <bdi>{place.path}</bdi>
        </h2>
        <span class="dim">{said.values}</span>
      </div>
      <div class="pair">
        <Half name={names[0]} entry={place.left} />
        <Half name={names[1]} entry={place.right} />
      </div>
    </section>
  );
}

function Half(props: { name: string; entry: Entry | null }) {
  const { name, entry } = props;
  return (
    <div>
      <p class="small two">
        <bdi>{name}</bdi>
        {entry && (
          <>
            {" · "}
            {words.entryWords(entry.kind, entry.status)} · {duration(entry.took * 1_000)}
          </>
        )}
      </p>
      {!entry && <p class="none">{said.notReached}</p>}
      {entry?.failure && <FailureBox failure={entry.failure} />}
      {entry && !entry.failure && <Json value={entry.value} label={`${name}, ${entry.path}`} />}
    </div>
  );
}

/** What differs of the runs themselves, whole: their inputs and outputs. */
function Facts(props: { found: Difference; names: [string, string] }) {
  const whole = Object.entries(props.found.facts).filter(([name]) => name === "input" || name === "output");
  return (
    <>
      {whole.map(([name, [left, right]]) => (
        <section class="section" key={name} aria-label={said.facts[name]}>
          <div class="bar">
            <h2>{(said.facts[name] ?? name).replace(/^./, (letter) => letter.toUpperCase())}</h2>
            <span class="dim">{said.values}</span>
          </div>
          <div class="pair">
            {[left, right].map((value, side) => (
              <div key={side}>
                <p class="small two">
                  <bdi>{props.names[side]}</bdi>
                </p>
                <Json value={value ?? null} label={`${props.names[side]}, ${name}`} />
              </div>
            ))}
          </div>
        </section>
      ))}
    </>
  );
}
