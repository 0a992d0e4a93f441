// Workers: the processes that execute runs, and those that were lost.

import { read, type Worker } from "../api";
import { seconds } from "../clock";
import { count, distance, duration } from "../formats";
import { useHead } from "../head";
import { useReading } from "../live";
import { Command } from "../parts/copy";
import { Icon } from "../parts/icon";
import { ProblemBox } from "../parts/problem";
import { Empty, Skeleton } from "../parts/states";
import { Ago } from "../parts/time";
import { to } from "../place";
import { words } from "../words";

export default function Workers() {
  const reading = useReading("workers", (signal) => read("/api/workers", { signal }), 2_000);
  const found = reading.data.value?.workers;
  const said = words.workers;
  useHead(words.nav.workers, [{ text: words.nav.workers }]);
  const alive = found?.filter((one) => one.is_alive).length ?? 0;
  const lost = (found?.length ?? 0) - alive;
  return (
    <>
      <div class="head">
        <h1>{words.nav.workers}</h1>
        {found && found.length > 0 && (
          <span class="sub">
            {said.alive(alive)}
            {lost > 0 && <>, {said.lost(lost)}</>}
          </span>
        )}
      </div>
      {!found && reading.problem.value && <ProblemBox problem={reading.problem.value} again={() => reading.again()} />}
      {!found && !reading.problem.value && <Skeleton rows={4} label={words.reading} />}
      {found?.length === 0 && <Empty title={said.none} text={said.noneText} command="stepwell worker app.py" />}
      {found && found.length > 0 && (
        <>
          <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={words.nav.workers}>
            <table class="table wk">
              <colgroup>
                <col class="w-name" />
                <col class="w-state" />
                <col />
                <col class="w-beat" />
                <col class="w-beat" />
              </colgroup>
              <thead>
                <tr>
                  <th>{said.worker}</th>
                  <th>{said.state}</th>
                  <th>{said.workflows}</th>
                  <th class="num">{said.since}</th>
                  <th class="num">{said.lease}</th>
                </tr>
              </thead>
              <tbody>
                {found.map((worker) => (
                  <WorkerRow key={worker.incarnation} worker={worker} />
                ))}
              </tbody>
            </table>
          </div>
          <div class="foot">
            <Command text="stepwell worker ls" />
          </div>
        </>
      )}
    </>
  );
}

function WorkerRow(props: { worker: Worker }) {
  const { worker } = props;
  const said = words.workers;
  const now = seconds.value * 1_000;
  const ends = Date.parse(worker.lease_until);
  return (
    <tr>
      <td class="path">
        <bdi>{worker.name}</bdi>
      </td>
      <td>
        {worker.is_alive ? (
          <span class="st st-running">
            <Icon name="s-running" />
            {said.isAlive}
          </span>
        ) : (
          <span class="st st-failed loud">
            <Icon name="s-failed" />
            {said.isLost}
          </span>
        )}
      </td>
      <td class="wrap">
        <Definitions names={worker.definitions} />
      </td>
      <td class="num two">
        <Ago at={worker.started_at} />
      </td>
      <td class={`num ${worker.is_alive ? "two" : "bad-text"}`}>
        {worker.is_alive ? said.leaseFor(duration(Math.max(0, ends - now)).replace(/\.\d+/, "")) : distance(ends, now)}
      </td>
    </tr>
  );
}

const SHOWN = 8;

function Definitions(props: { names: string[] }) {
  const own = props.names.filter((name) => !name.startsWith("stepwell."));
  return (
    <>
      {own.slice(0, SHOWN).map((name, place) => {
        const [workflow = name, version = ""] = name.split("@");
        return (
          <span key={name}>
            {place > 0 && ", "}
            <a href={to("runs", { q: `workflow:${workflow}` })}>
              <bdi>{workflow}</bdi>
            </a>{" "}
            <span class="ver">v{version}</span>
          </span>
        );
      })}
      {own.length > SHOWN && <span class="dim">, {words.workers.more(count(own.length - SHOWN, "workflow"))}</span>}
    </>
  );
}
