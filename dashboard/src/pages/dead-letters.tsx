// Dead letters: what could not be handled, in one list, until a person retries or drops it.

import "./dead-letters.css";
import { useEffect, useState } from "preact/hooks";
import { offer, pageOffers } from "../acts";
import { dropAll, hasPayload, type Kind, KINDS, type Letter, offersOf, payloadOf, retryAll, titleOf } from "../acts/letters";
import { read, type Schemas } from "../api";
import { bytes } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar, ActButton } from "../parts/acts";
import { Command, CopyButton } from "../parts/copy";
import { Icon } from "../parts/icon";
import { isHidden, Json } from "../parts/json";
import { useKeys } from "../keys";
import { ProblemBox } from "../parts/problem";
import { Empty, None, Skeleton } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { to, toRun } from "../place";
import { may } from "../session";
import { command, target } from "../shell";
import { words } from "../words";

const said = words.letters;
const MOST = 200;

type Handled = Schemas["HandledLetterBody"];
type View = "open" | "retried" | "dropped";

export default function DeadLetters(props: { query: Record<string, string> }) {
  const view = (["retried", "dropped"] as View[]).find((one) => one === props.query["view"]) ?? "open";
  const kind = KINDS.find((one) => one === props.query["kind"]) ?? "";
  const chosen = props.query["letter"] ?? "";
  useHead(words.nav.letters, [{ text: words.nav.letters }]);
  const open = useReading(
    `letters ${kind}`,
    (signal) => read("/api/dead-letters", { query: { ...(kind ? { kind } : {}), limit: MOST } as never, signal }),
    5_000,
  );
  const handled = useReading("letters-handled", (signal) => read("/api/dead-letters/handled", { query: { limit: 100 } as never, signal }), 15_000);
  const letters = open.data.value?.letters;
  const ended = handled.data.value?.letters;
  const letter = letters?.find((one) => one.letter === chosen);
  const all = [offer(retryAll, { kind }), offer(dropAll, { kind })];
  useEffect(() => {
    pageOffers.value = [...(letter ? offersOf(letter) : []), ...all];
  }, [letter?.letter, kind]);
  const reading = view === "open" ? open : handled;
  return (
    <>
      <div class={`head letters-head ${chosen ? "has-letter" : ""}`}>
        <h1>{words.nav.letters}</h1>
        <nav class="views" aria-label={said.views}>
          <ViewLink view="open" now={view} name={said.open} count={letters && said.some(letters.length, open.data.value?.next !== null)} kind={kind} />
          <ViewLink view="retried" now={view} name={said.retried} count={ended && String(ended.filter((one) => one.state === "retried").length)} kind={kind} />
          <ViewLink view="dropped" now={view} name={said.dropped} count={ended && String(ended.filter((one) => one.state === "dropped").length)} kind={kind} />
        </nav>
        {may("steer") && view === "open" && letters && letters.length > 0 && (
          <div class="acts">
            {all.map((one) => (
              <ActButton key={one.act.name} offer={one} />
            ))}
          </div>
        )}
      </div>
      {!reading.data.value && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!reading.data.value && !reading.problem.value && <Skeleton rows={6} label={words.reading} />}
      {view === "open" && letters && <Open letters={letters} kind={kind} chosen={chosen} />}
      {view !== "open" && ended && <HandledList letters={ended.filter((one) => one.state === view)} />}
    </>
  );
}

function ViewLink(props: { view: View; now: View; name: string; count: string | undefined; kind: string }) {
  const query = props.view === "open" ? { kind: props.kind } : { view: props.view };
  return (
    <a href={to("dead-letters", query)} aria-current={props.view === props.now ? "page" : undefined}>
      {props.name} {props.count !== undefined && <span class="n">{props.count}</span>}
    </a>
  );
}

function Open(props: { letters: Letter[]; kind: Kind | ""; chosen: string }) {
  const { letters, kind, chosen } = props;
  const move = (step: number) => {
    const links = [...document.querySelectorAll<HTMLElement>(".inbox .list a.row-name")];
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[Math.min(links.length - 1, Math.max(0, at + step))]?.focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
  if (letters.length === 0 && kind === "" && chosen === "") return <Empty title={said.none} text={said.noneText} command="stepwell dlq ls" />;
  return (
    <div class={`inbox letters ${chosen ? "has-letter" : ""}`}>
      <nav class="list" aria-label={said.label}>
        <div class="kinds">
          <KindLink kind="" now={kind} name={said.allKinds} />
          {KINDS.map((one) => (
            <KindLink key={one} kind={one} now={kind} name={said.kinds[one]} />
          ))}
        </div>
        {letters.length === 0 && <None>{said.noneOfKind}</None>}
        <ul>
          {letters.map((one) => (
            <li key={one.letter}>
              <a class="row-name" href={to("dead-letters", { kind, letter: one.letter })} aria-current={one.letter === chosen ? "true" : undefined}>
                <Icon name="s-failed" class="bad-text" />
                <span class="what name">
                  <bdi>{titleOf(one)}</bdi>
                </span>
                <span class="sum">
                  <Time at={one.died_at} />
                </span>
                <span class="l2">
                  {said.kinds[one.kind as Kind]} · <bdi>{one.reason}</bdi>
                </span>
              </a>
            </li>
          ))}
        </ul>
        <div class="foot">
          <Command text={command("dlq ls", kind !== "" && ["--kind", kind])} />
        </div>
      </nav>
      {chosen ? <One key={chosen} name={chosen} listed={letters.find((one) => one.letter === chosen)} kind={kind} /> : <p class="none task">{said.choose}</p>}
    </div>
  );
}

function KindLink(props: { kind: string; now: string; name: string }) {
  return (
    <a href={to("dead-letters", { kind: props.kind })} aria-current={props.kind === props.now ? "page" : undefined}>
      {props.name}
    </a>
  );
}

function One(props: { name: string; listed: Letter | undefined; kind: string }) {
  const reading = useReading(`letter ${props.name}`, (signal) => read("/api/dead-letters/{letter}", { parts: { letter: props.name }, signal }), 10_000);
  const isGone = reading.problem.value?.status === 404;
  const one = isGone ? undefined : (reading.data.value ?? props.listed);
  return (
    <article class="task letter">
      <a class="back" href={to("dead-letters", { kind: props.kind })}>
        <Icon name="left" />
        {said.back}
      </a>
      {isGone && (
        <div class="empty">
          <h2>{said.gone}</h2>
          <p>{said.goneText}</p>
        </div>
      )}
      {!one && !isGone && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!one && !reading.problem.value && <Skeleton rows={6} label={words.reading} />}
      {one && <Whole letter={one} />}
    </article>
  );
}

function Whole(props: { letter: Letter }) {
  const { letter } = props;
  return (
    <>
      <header>
        <h2 class="task-title">
          <bdi>{titleOf(letter)}</bdi>
        </h2>
        <p class="sub">
          {said.setAside} <FullTime at={letter.died_at} /> · {said.kept}
        </p>
      </header>
      <section class="why t-bad gap-t" aria-label={said.why}>
        <p class="label">
          <Icon name="s-failed" />
          {said.why}
        </p>
        <p class="reason">
          <bdi>{letter.reason.replace(/^[a-z]/, (first) => first.toUpperCase())}</bdi>
        </p>
        <div class="facts">
          <dl>
            {letter.fix && (
              <>
                <dt>{said.retryIs}</dt>
                <dd>{letter.fix}</dd>
              </>
            )}
            <dt>{said.until}</dt>
            <dd>{said.waits[letter.kind]}</dd>
          </dl>
        </div>
        <ActBar offers={offersOf(letter)} isBelow />
      </section>
      <dl class="facts-grid">
        <Fact name={said.kind} text={said.kinds[letter.kind as Kind] ?? letter.kind} />
        <Fact name={said.code} text={letter.code} isCode />
        <Fact name={said.attempts} text={String(letter.attempts)} />
        <Fact name={said.worker} text={letter.worker || said.unknownWorker} isCode={letter.worker !== ""} />
        <div>
          <dt>{said.from}</dt>
          <dd>
            <Time at={letter.at} />
          </dd>
        </div>
        <Fact name={said.letterId} text={letter.letter} isCode />
        {letter.run_id && (
          <div>
            <dt>{said.run}</dt>
            <dd>
              <a class="mono" href={toRun(letter.run_id)}>
                <bdi>{letter.key ?? letter.run_id}</bdi>
              </a>
            </dd>
          </div>
        )}
        {letter.workflow && <Fact name={said.workflow} text={letter.workflow} />}
        {letter.kind === "event" && <Fact name={said.target} text={letter.target} />}
      </dl>
      <Content letter={letter} />
    </>
  );
}

function Fact(props: { name: string; text: string; isCode?: boolean }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd class={props.isCode ? "mono small" : ""}>
        <bdi>{props.text}</bdi>
      </dd>
    </div>
  );
}

/** Its content as JSON, and its bytes as they came. */
function Content(props: { letter: Letter }) {
  const { letter } = props;
  const [isRaw, setRaw] = useState(false);
  const isBlind = isHidden(letter.payload);
  return (
    <section class="section">
      <div class="bar">
        <h3>{said.envelope}</h3>
        <span class="dim">{isRaw && said.original}</span>
        {!isBlind && (
          <span class="end seg" role="group" aria-label={said.form}>
            <button type="button" aria-pressed={!isRaw} onClick={() => setRaw(false)}>
              {said.json}
            </button>
            <button type="button" aria-pressed={isRaw} onClick={() => setRaw(true)}>
              {said.bytes}
            </button>
          </span>
        )}
      </div>
      {isRaw && !isBlind ? <Bytes letter={letter} /> : <Json value={shownPayload(letter)} label={said.envelope} />}
    </section>
  );
}

function shownPayload(letter: Letter): unknown {
  if (letter.kind !== "hook" || !hasPayload(letter) || isHidden(letter.payload)) return letter.payload;
  return JSON.parse(payloadOf(letter)) as unknown;
}

const ROW = 16;
const ROWS_MAX = 400;

/** Bytes as people read them: their place, sixteen of them, and the characters that they are. */
export function hexDump(data: Uint8Array, rowsMax = ROWS_MAX): string {
  const lines: string[] = [];
  for (let at = 0; at < data.length && lines.length < rowsMax; at += ROW) {
    const row = [...data.subarray(at, at + ROW)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const characters = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(ROW * 3 - 1)}  ${characters}`);
  }
  return lines.join("\n");
}

function Bytes(props: { letter: Letter }) {
  const name = props.letter.letter;
  const reading = useReading(`letter-bytes ${name}`, (signal) => read("/api/dead-letters/{letter}/original", { parts: { letter: name }, signal }), Number.POSITIVE_INFINITY);
  const found = reading.data.value;
  if (!found && reading.problem.value) return <ProblemBox problem={reading.problem.value} again={() => reading.again()} />;
  if (!found) return <Skeleton rows={4} label={words.reading} />;
  if (found.size === 0) return <None>{said.noBytes}</None>;
  const data = Uint8Array.from(atob(found.base64), (character) => character.charCodeAt(0));
  const isCut = !found.is_whole || data.length > ROW * ROWS_MAX;
  return (
    <>
      <pre class="code bytes" tabIndex={0} role="region" aria-label={said.bytes}>
        {hexDump(data)}
      </pre>
      <div class="row gap-t">
        <span class="dim small">{isCut ? said.cut(bytes(found.size)) : bytes(found.size)}</span>
        <CopyButton text={new TextDecoder().decode(data)} label={words.copy}>
          {words.copy}
        </CopyButton>
        <Command text={command("dlq show", target(name), "--raw")} />
      </div>
    </>
  );
}

function HandledList(props: { letters: Handled[] }) {
  if (props.letters.length === 0) return <None>{said.noneHandled}</None>;
  return (
    <ul class="handled">
      {props.letters.map((one) => (
        <li key={one.letter}>
          <Icon name={one.state === "retried" ? "s-completed" : "s-skipped"} />
          <div>
            <span class="strong">
              <bdi>{titleOf({ kind: one.kind, name: one.name, run_id: one.run_id })}</bdi>
            </span>{" "}
            <code class="code-no">{one.letter}</code>
            <p class="two">
              <bdi>{one.reason}</bdi>
            </p>
            <p class="two">
              <bdi>
                {said.handledBy(said.states[one.state] ?? one.state, one.by)}
                {one.why && `: ${one.why}`}
              </bdi>
            </p>
          </div>
          <span class="dim">
            <Time at={one.at} />
          </span>
        </li>
      ))}
    </ul>
  );
}
