// Signals: what the run waits for, what it has received, and what it has not read.

import { offer } from "../acts";
import { runActs, type RunTarget } from "../acts/runs";
import { ActBar } from "../parts/acts";
import { None } from "../parts/states";
import { FullTime, Time } from "../parts/time";
import { isEnded } from "../statuses";
import { words } from "../words";
import { Json } from "../parts/json";
import type { RunRecord } from "./record";

export function SignalsTab(props: { record: RunRecord; target: RunTarget }) {
  const { run, waits, entries, pendingSignals } = props.record;
  const awaited = waits.filter((wait) => wait.kind === "signal" || wait.kind === "topic");
  const received = entries.filter((entry) => entry.kind === "receive" || entry.kind === "receive_many" || entry.kind === "topic");
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
            <div class="scroll-x">
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
            <span class="dim">{pendingSignals.length}</span>
          </div>
          {pendingSignals.length === 0 ? (
            <None>{said.noneUnread}</None>
          ) : (
            <ul class="bullets">
              {pendingSignals.map((name, place) => (
                <li key={`${place} ${name}`}>
                  <code>{name}</code>
                </li>
              ))}
            </ul>
          )}
        </section>
        <section class="section">
          <div class="bar">
            <h2>{said.received}</h2>
            <span class="dim">{received.length}</span>
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
        </section>
      </div>
      {!isEnded(run) && (
        <section class="box">
          <div class="pad form">
            <h2>{said.send}</h2>
            <p class="two">{awaited.length > 0 ? said.sendNow : said.sendEarly}</p>
            <ActBar offers={[offer(runActs.signal, props.target)]} isBelow />
          </div>
        </section>
      )}
    </div>
  );
}
