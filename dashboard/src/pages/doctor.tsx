// Doctor: what was examined, what was found, why it matters, and what to do about it.

import "./doctor.css";
import { useState } from "preact/hooks";
import { offer, type Offer } from "../acts";
import { actOf, type Finding, FIX, recover } from "../acts/findings";
import { read } from "../api";
import { useHead } from "../head";
import { useReading } from "../live";
import { ActBar } from "../parts/acts";
import { Command } from "../parts/copy";
import { Icon } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import type { IconName } from "../parts/sprite";
import { Skeleton } from "../parts/states";
import { Ago } from "../parts/time";
import { to, toRun } from "../place";
import { may } from "../session";
import { words } from "../words";

const QUICK_MS = 10_000;

const LOOKS: Record<Finding["verdict"], { icon: IconName; tone: string; rank: number }> = {
  fail: { icon: "s-failed", tone: "t-bad", rank: 0 },
  warn: { icon: "s-warning", tone: "t-warn", rank: 1 },
  ok: { icon: "s-completed", tone: "t-good", rank: 2 },
};

/** The worst first; otherwise in the order of the examination. */
export function byUrgency(findings: Finding[]): Finding[] {
  return [...findings].sort((one, other) => LOOKS[one.verdict].rank - LOOKS[other.verdict].rank);
}

export default function Doctor() {
  const [isWhole, setWhole] = useState(false);
  const said = words.doctor;
  useHead(words.nav.doctor, [{ text: words.nav.doctor }]);
  // The whole file is read only when somebody asks for it.
  const reading = useReading(
    isWhole ? "doctor whole" : "doctor",
    (signal) => read("/api/doctor", { query: { whole: isWhole }, signal }),
    isWhole ? Number.POSITIVE_INFINITY : QUICK_MS,
  );
  const found = reading.data.value;
  const all = found ? [...found.store, ...found.needs] : [];
  const fine = all.filter((one) => one.verdict === "ok").length;
  return (
    <>
      <div class="head">
        <h1>{said.title}</h1>
        {found && (
          <span class="sub">
            {fine === all.length ? said.allFine(all.length) : said.fine(fine, all.length)} · {said.checked} <Ago at={found.checked_at} />
          </span>
        )}
        <div class="acts">
          <label class="choice" title={said.wholeHelp}>
            <input type="checkbox" checked={isWhole} onChange={(event) => setWhole(event.currentTarget.checked)} />
            <span>{said.whole}</span>
          </label>
          <button type="button" class="btn" onClick={() => reading.again()}>
            {said.again}
          </button>
        </div>
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={10} label={words.reading} />}
      {found && (
        <>
          <Checks title={said.about.needs} findings={found.needs} />
          {may("steer") ? (
            <Checks title={said.about.store} findings={found.store} />
          ) : (
            <section class="section" aria-label={said.about.store}>
              <h2>{said.about.store}</h2>
              <p class="dim">{said.hidden}</p>
            </section>
          )}
          <div class="foot">
            <span>{found.is_quick ? said.isQuick : said.isWhole}</span>
            <span>{said.command}</span>
            <Command text="stepwell doctor" />
          </div>
        </>
      )}
    </>
  );
}

function Checks(props: { title: string; findings: Finding[] }) {
  return (
    <section class="section" aria-label={props.title}>
      <h2>{props.title}</h2>
      <ul class="checks">
        {byUrgency(props.findings).map((one, place) => (
          <Check key={`${one.check} ${place}`} finding={one} />
        ))}
      </ul>
    </section>
  );
}

function Check(props: { finding: Finding }) {
  const { finding } = props;
  const said = words.doctor;
  const look = LOOKS[finding.verdict];
  const offers = offersOf(finding);
  const looks = finding.advice.filter((one) => one.method === "GET" && one.path.startsWith("/api/runs/") && one.target);
  return (
    <li class={look.tone}>
      <Icon name={look.icon} />
      <b class="strong">
        {sentence(finding.check)}
        <span class="vh">, {said.verdicts[finding.verdict]}</span>
      </b>
      <div class="found">
        <bdi>{sentence(finding.found)}</bdi>{" "}
        {finding.filter && <a href={to("runs", { q: finding.filter })}>{said.show(finding.runs)}</a>}
      </div>
      {finding.verdict !== "ok" && (
        <div class="more">
          {finding.why && <p>{sentence(finding.why)}</p>}
          {finding.advice.length === 0 && finding.fix && (
            <dl class="kv">
              <dt>{words.problem.fix}</dt>
              <dd>{sentence(finding.fix)}</dd>
            </dl>
          )}
          {finding.advice.map((one) => one.note && <p key={one.note}>{sentence(one.note)}</p>)}
          {offers.length > 0 && <ActBar offers={offers} isBelow hasPrimary={false} />}
          {finding.advice
            .filter((one) => one.command && !offers.some((other) => other.target === one))
            .map((one) => (
              <Command key={one.command} text={one.command} />
            ))}
          {finding.remedy !== null && finding.remedy !== "recover" && <Command text={FIX} />}
          {looks.map((one) => (
            <a key={one.target} href={toRun(one.target)}>
              {said.showOne}
            </a>
          ))}
        </div>
      )}
    </li>
  );
}

/** The words of the server begin as they do after a label in a terminal. A command stays as it is. */
function sentence(text: string): string {
  return text.startsWith("stepwell ") ? text : text.replace(/^[a-z]/, (letter) => letter.toUpperCase());
}

function offersOf(finding: Finding): Offer[] {
  const own = finding.advice.flatMap((one) => actOf(one) ?? []);
  return finding.remedy === "recover" ? [offer(recover, null), ...own] : own;
}
