// What a run publishes: its state by name, and its streams as they grow.

import { useEffect, useRef, useState } from "preact/hooks";
import { effect } from "@preact/signals";
import { listen, read, type Schemas } from "../api";
import { number, size } from "../formats";
import { isFollowed, useReading } from "../live";
import { Icon } from "../parts/icon";
import { Json } from "../parts/json";
import { None } from "../parts/states";
import { words } from "../words";
import type { RunRecord } from "./record";

type Published = Schemas["PublishedBody"];
type Line = Schemas["LineBody"];

const said = words.published;
const LINES_MAX = 100;
const AGAIN_MS = 2_000;

/** The state by name. At an earlier line it is not always known. */
export function PublishedState(props: { published: Published[]; title?: string; none?: string }) {
  if (props.published.length === 0 && !props.none) return null;
  return (
    <>
      <h3>{props.title ?? said.title}</h3>
      {props.published.length === 0 && <None>{props.none}</None>}
      {props.published.map((one) => (
        <div key={one.name} class="gap-t">
          {one.name !== "" && (
            <p class="dim small">
              <bdi>{said.named(one.name)}</bdi>
            </p>
          )}
          {one.is_known ? <Json value={one.value} label={one.name || said.title} /> : <p class="none">{said.unknown}</p>}
        </div>
      ))}
    </>
  );
}

export function PublishedTab(props: { record: RunRecord }) {
  const { run, tree } = props.record;
  const published = tree?.body.published ?? [];
  const streams = useReading(
    `run-streams ${run.run_id}`,
    async (signal) => (await read("/api/runs/{run}/streams", { parts: { run: run.run_id }, signal })).streams,
    5_000,
    { run: run.run_id, floor: 1_000 },
  ).data.value;
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const open = chosen ?? streams?.[0];
  return (
    <div class="cols-2">
      <section>
        <div class="bar">
          <h2>{said.title}</h2>
          <span class="dim">{published.length}</span>
        </div>
        {published.length === 0 && <None>{said.none}</None>}
        {published.map((one) => (
          <details class="fold ruled" open key={one.name}>
            <summary>
              <Icon name="right" />
              <bdi>{one.name || said.own}</bdi> <span class="dim">{size(one.value)}</span>
            </summary>
            <Json value={one.value} label={one.name || said.title} />
          </details>
        ))}
      </section>
      <section>
        <div class="bar">
          <h2>{said.streams}</h2>
          <span class="dim">{streams?.length}</span>
          {(streams?.length ?? 0) > 1 && (
            <span class="seg end">
              {streams?.map((name) => (
                <button type="button" key={name} aria-pressed={name === open} onClick={() => setChosen(name)}>
                  <bdi>{name}</bdi>
                </button>
              ))}
            </span>
          )}
        </div>
        {streams?.length === 0 && <None>{said.noStreams}</None>}
        {open !== undefined && <Stream key={open} run={run.run_id} name={open} />}
      </section>
    </div>
  );
}

interface Heard {
  lines: Line[];
  count: number;
  isOver: boolean;
}

/** The last lines of a stream. It is heard only while it is looked at, and continues after the last line that is known. */
function Stream(props: { run: string; name: string }) {
  const { run, name } = props;
  const [{ lines, count, isOver }, setHeard] = useState<Heard>({ lines: [], count: 0, isOver: false });
  const mark = useRef("");
  useEffect(
    () =>
      effect(() => {
        if (!isFollowed.value) return;
        const own = new AbortController();
        let timer: ReturnType<typeof setTimeout> | undefined;
        let waiting: Line[] = [];
        // Many lines may come at once: the page takes them together.
        const take = () => {
          timer = undefined;
          const more = waiting;
          waiting = [];
          setHeard((before) => ({ ...before, count: before.count + more.length, lines: [...before.lines, ...more].slice(-LINES_MAX) }));
        };
        const hear = async (): Promise<void> => {
          while (!own.signal.aborted) {
            let isBroken = false;
            try {
              const given = { parts: { run, stream: name }, mark: mark.current, signal: own.signal };
              await listen("/api/runs/{run}/streams/{stream}/changes", given, (told) => {
                if (told?.event === "problem") isBroken = true;
                if (told?.event !== "line") return;
                mark.current = told.id;
                waiting.push(JSON.parse(told.data) as Line);
                timer ??= setTimeout(take, 250);
              });
              if (!isBroken) break;
            } catch {
              // It is heard again after a while.
            }
            if (own.signal.aborted) return;
            await new Promise((done) => setTimeout(done, AGAIN_MS));
          }
          if (!own.signal.aborted) setHeard((before) => ({ ...before, isOver: true }));
        };
        void hear();
        return () => {
          own.abort();
          clearTimeout(timer);
          if (waiting.length > 0) take();
        };
      }),
    [run, name],
  );
  const gone = withdrawnIn(lines);
  return (
    <>
      <ol class="lines" aria-label={said.stream(name)} tabIndex={0}>
        {lines.map((line) => (
          <li key={line.offset} class={gone.has(line.offset) ? "gone" : ""}>
            <span class="num dim">{number(line.offset)}</span>
            <div>
              {line.kind === "item" ? <code class="ell">{JSON.stringify(line.value)}</code> : <span class="dim">{line.kind === "close" ? said.closed : said.withdrawn}</span>}
              {gone.has(line.offset) && <span class="dim small"> {said.withdrawn}</span>}
              {line.source && <span class="dim small"> {said.from(line.source)}</span>}
            </div>
          </li>
        ))}
      </ol>
      <p class="dim small">
        {said.lines(number(count))} {count > lines.length && said.earlier} {isOver ? said.over : said.open}
      </p>
    </>
  );
}

/** The lines that a later reset of their source has withdrawn. */
export function withdrawnIn(lines: Line[]): Set<number> {
  const gone = new Set<number>();
  for (const reset of lines)
    if (reset.kind === "reset")
      for (const line of lines)
        if (line.kind === "item" && line.source === reset.source && line.offset < reset.offset && line.offset >= (reset.since ?? 0)) gone.add(line.offset);
  return gone;
}
