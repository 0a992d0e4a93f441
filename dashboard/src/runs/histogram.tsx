// When the runs of a filter were created, and how many of them have failed. A range can be selected by dragging.

import "./histogram.css";
import { useRef, useState } from "preact/hooks";
import { read, type Schemas } from "../api";
import { fullTime, number, roughly, shortTime, zoneName } from "../formats";
import { useReading } from "../live";
import { words } from "../words";
import { hasRange, sortedBy, within, without } from "./query";

const BINS = 96;
const EVERY_MS = 10_000;
const HEIGHT = 44;
const MARKS = 7;
export const LASTS = ["1h", "24h", "7d", "30d"] as const;

type Body = Schemas["HistogramBody"];
const said = words.histogram;

export function Histogram(props: { q: string; last: string; onLast: (last: string) => void; onRange: (q: string) => void }) {
  const { q, last } = props;
  const reading = useReading(
    `runs histogram ${last} ${sortedBy(q, "")}`,
    (signal) => read("/api/runs/histogram", { query: { q: sortedBy(q, ""), bins: BINS, last }, signal }),
    EVERY_MS,
  );
  const found = reading.data.value;
  const drag = useDrag((from, until) => {
    if (!found) return;
    const [begin, end] = [Date.parse(found.since), Date.parse(found.until)];
    const at = (part: number) => new Date(begin + part * (end - begin));
    props.onRange(within(q, at(from), at(until)));
  });
  if (!found) return <figure class="histo" aria-busy={!reading.problem.value} />;
  const highest = Math.max(0, ...found.bins.map((bin) => bin.runs));
  const isOwn = hasRange(q);
  const width = 100 / found.bins.length;
  return (
    <figure class="histo">
      <figcaption>
        <span>{said.about(roughly(found.seconds * 1_000), number(highest))}</span>
        <span class="key">{said.all}</span>
        <span class="key bad">{said.failed}</span>
        {!found.is_whole && <span class="warn-text">{said.notWhole}</span>}
        {found.counted_since > found.since && <span class="warn-text">{said.countedSince(shortTime(Date.parse(found.counted_since), Date.now()))}</span>}
        <span class="end">
          {isOwn ? (
            <button type="button" class="link" onClick={() => props.onRange(without(q, "since:", "until:"))}>
              {said.whole}
            </button>
          ) : (
            <span class="lasts" role="group" aria-label={said.lasts}>
              {LASTS.map((one) => (
                <button key={one} type="button" class="link" aria-pressed={one === last} onClick={() => props.onLast(one)}>
                  {one}
                </button>
              ))}
            </span>
          )}
          <span class="drag"> · {said.drag}</span>
        </span>
      </figcaption>
      <svg role="img" aria-label={sentence(found)} {...drag.handlers}>
        <rect class="f-clear" width="100%" height={HEIGHT} />
        {found.bins.map((bin, place) => (
          <Bar key={bin.at} bin={bin} highest={highest} x={place * width} width={width} />
        ))}
        {drag.range && (
          <rect class="f-brush" x={`${100 * drag.range[0]}%`} width={`${100 * (drag.range[1] - drag.range[0])}%`} height={HEIGHT} />
        )}
      </svg>
      <Axis found={found} />
    </figure>
  );
}

function Bar(props: { bin: Body["bins"][number]; highest: number; x: number; width: number }) {
  const { bin, highest } = props;
  if (bin.runs === 0) return null;
  // What is there is seen, however little it is.
  const height = (runs: number) => (runs === 0 ? 0 : Math.max(1.5, (HEIGHT * runs) / highest));
  const place = { x: `${props.x}%`, width: `${Math.max(0.1, props.width * 0.82)}%` };
  return (
    <>
      <rect class="f-done" {...place} y={HEIGHT - height(bin.runs)} height={height(bin.runs)} />
      {bin.failed > 0 && <rect class="f-bad" {...place} y={HEIGHT - height(bin.failed)} height={height(bin.failed)} />}
    </>
  );
}

function Axis(props: { found: Body }) {
  const [begin, end] = [Date.parse(props.found.since), Date.parse(props.found.until)];
  const marks = Array.from({ length: MARKS }, (_, place) => begin + ((end - begin) * place) / (MARKS - 1));
  return (
    <div class="axis" aria-hidden="true">
      {marks.map((at, place) => (
        <span key={place}>
          {axisTime(at, end - begin, place === 0)}
          {place === MARKS - 1 && ` ${zoneName()}`}
        </span>
      ))}
    </div>
  );
}

const DAY = 86_400_000;

/** The day alone where a part is longer than a day; else the time of day. */
function axisTime(at: number, range: number, isFirst: boolean): string {
  const [, day = "", month = "", time = ""] = /^(\d+) (\w+) \d+ (\d+:\d+)/.exec(fullTime(at)) ?? [];
  if (range > 3 * DAY) return `${day} ${month}`;
  return isFirst && range > DAY / 2 ? `${day} ${month} ${time}` : time;
}

/** The picture in a sentence. */
export function sentence(found: Body): string {
  const busiest = found.bins.reduce((most, bin) => (bin.runs > most.runs ? bin : most), { runs: 0, at: found.since, failed: 0 });
  const failed = found.bins.reduce((sum, bin) => sum + bin.failed, 0);
  const total = found.bins.reduce((sum, bin) => sum + bin.runs, 0);
  const range = [fullTime(Date.parse(found.since)), fullTime(Date.parse(found.until))] as const;
  return said.sentence(number(total), number(failed), ...range, total > 0 ? said.most(number(busiest.runs), fullTime(Date.parse(busiest.at))) : "");
}

const DRAG_MIN = 0.004;

/** The part of an element that is being dragged over, as shares of its width. */
function useDrag(choose: (from: number, until: number) => void) {
  const [range, setRange] = useState<[number, number] | undefined>(undefined);
  const begun = useRef<number | undefined>(undefined);
  const at = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const ordered = (one: number, other: number): [number, number] => (one < other ? [one, other] : [other, one]);
  const stop = () => {
    begun.current = undefined;
    setRange(undefined);
  };
  return {
    range,
    handlers: {
      onPointerDown: (event: PointerEvent) => {
        if (event.button !== 0) return;
        (event.currentTarget as Element).setPointerCapture(event.pointerId);
        begun.current = at(event);
      },
      onPointerMove: (event: PointerEvent) => {
        if (begun.current !== undefined) setRange(ordered(begun.current, at(event)));
      },
      onPointerUp: (event: PointerEvent) => {
        if (begun.current === undefined) return;
        const [from, until] = ordered(begun.current, at(event));
        stop();
        if (until - from > DRAG_MIN) choose(from, until);
      },
      onPointerCancel: stop,
    },
  };
}
