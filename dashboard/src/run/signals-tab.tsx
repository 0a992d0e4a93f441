// Signals: what the run waits for, what it has received, and what it has not read.

import { useEffect, useState } from "preact/hooks";
import { mayDo, type Offer, offer, prepared } from "../acts";
import { runActs, type RunTarget } from "../acts/runs";
import { read } from "../api";
import { number } from "../formats";
import { useReading } from "../live";
import { ActForm } from "../parts/acts";
import { None } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { isEnded } from "../statuses";
import { words } from "../words";
import { Json } from "../parts/json";
import type { RunRecord } from "./record";

const RECEIVED_MAX = 50;

export function SignalsTab(props: { record: RunRecord; target: RunTarget }) {
  const { run, waits, pending } = props.record;
  const awaited = waits.filter((wait) => wait.kind === "signal" || wait.kind === "topic");
  const page = useReading(
    `run-received ${run.run_id}`,
    (signal) => read("/api/runs/{run}/history", { parts: { run: run.run_id }, query: { kinds: "receive,receive_many,topic", limit: RECEIVED_MAX }, signal }),
    6_000,
    { run: run.run_id, floor: 1_000 },
  ).data.value;
  const received = page?.entries ?? [];
  const said = words.signals;
  return (
    <div class="cols tab-cols">
      <div>
        <section>
          <div class="bar">
            <h2>{said.awaited}</h2>
            <span class="dim">{awaited.length}</span>
          </div>
          {awaited.length === 0 ? (
            <None>{isEnded(run) ? said.ended : said.noneAwaited}</None>
          ) : (
            <div class="scroll-x" tabIndex={0} role="region" aria-label={said.awaited}>
              <table class="table inset">
                <thead>
                  <tr>
                    <th>{said.name}</th>
                    <th>{said.at}</th>
                    <th class="num">{said.until}</th>
                  </tr>
                </thead>
                <tbody>
                  {awaited.map((wait) => (
                    <tr key={wait.path}>
                      <td class="path">{wait.names.join(", ") || said.anyName}</td>
                      <td class="path">{wait.path}</td>
                      <td class="num">{wait.due_at ? <FullTime at={wait.due_at} /> : <span class="dim">{said.noLimit}</span>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </section>
        <section class="section">
          <div class="bar">
            <h2>{said.unread}</h2>
            <span class="dim">{pending.length}</span>
          </div>
          {pending.length === 0 ? (
            <None>{said.noneUnread}</None>
          ) : (
            pending.map((one) => (
              <details class="fold ruled" key={one.number}>
                <summary>
                  <code>
                    <bdi>{one.name}</bdi>
                  </code>
                  <span class="end dim">
                    <Time at={one.sent_at} />
                  </span>
                </summary>
                <Json value={one.payload} label={one.name} />
              </details>
            ))
          )}
        </section>
        <section class="section">
          <div class="bar">
            <h2>{said.received}</h2>
            <span class="dim">{number(page?.matching ?? received.length)}</span>
          </div>
          {received.length === 0 ? (
            <None>{said.noneReceived}</None>
          ) : (
            received.map((entry) => (
              <details class="fold ruled" key={entry.seq}>
                <summary>
                  <code>{entry.path}</code> <span class="dim">{words.entryWords(entry.kind, entry.status)}</span>
                  <span class="end dim">
                    <Time at={entry.at} />
                  </span>
                </summary>
                <Json value={entry.value} label={entry.path} />
              </details>
            ))
          )}
          {page?.next != null && <p class="dim small">{said.newestOf(received.length, number(page.matching ?? 0))}</p>}
        </section>
      </div>
      {!isEnded(run) && <Send target={props.target} isAwaited={awaited.length > 0} />}
    </div>
  );
}

/** The form of a signal, from the type that the workflow declares for it. What was typed stays while the page is read again. */
function Send(props: { target: RunTarget; isAwaited: boolean }) {
  const said = words.signals;
  const { run, awaited } = props.target;
  const [ready, setReady] = useState<Offer | undefined>(undefined);
  const [sent, setSent] = useState(0);
  useEffect(() => {
    let isHere = true;
    void prepared(offer(runActs.signal, props.target)).then((one) => isHere && setReady(one));
    return () => (isHere = false);
  }, [run.run_id, run.version, awaited.join(), sent]);
  if (!ready) return <section class="box" aria-busy="true" />;
  return (
    <section class="box">
      <div class="pad form">
        <h2>{said.send}</h2>
        <p class="two">{props.isAwaited ? said.sendNow : said.sendEarly}</p>
        {mayDo(ready) ? (
          <ActForm key={`${awaited.join()} ${sent}`} offer={ready} label={said.send} onDone={() => setSent(sent + 1)} />
        ) : (
          <p class="dim small">{words.acts.readOnly}</p>
        )}
      </div>
    </section>
  );
}
