// The axis of a timeline: from times to places, with long idle times folded.

export interface Scale {
  from: number;
  until: number;
  /** The place of a time, from 0 to 100. */
  x(at: number): number;
  /** The time at a place. */
  at(x: number): number;
  /** The places where idle time is folded. */
  folds: number[];
  isFolded: boolean;
}

const FOLD_WIDTH = 14;
const FOLD_WIDTH_MANY = 6;
const FOLDS_MAX = 6;
/** Idle time is folded if it is longer than so many times all work. */
const IDLE_RATIO = 1.5;
const IDLE_MIN_MS = 1_000;

interface Piece {
  from: number;
  until: number;
  x: number;
  width: number;
}

/** The scale over these spans. */
export function scaleOf(spans: [number, number][], from: number, until: number, folds: boolean): Scale {
  const end = Math.max(until, from + 1);
  const gaps = folds ? idleTimes(spans, from, end) : [];
  const pieces = piecesOf(gaps, from, end);
  const find = (fits: (piece: Piece) => boolean): Piece => pieces.find(fits) ?? (pieces.at(-1) as Piece);
  return {
    from,
    until: end,
    x(at) {
      const piece = find((one) => at <= one.until);
      const part = (Math.max(at, piece.from) - piece.from) / (piece.until - piece.from);
      return piece.x + piece.width * Math.min(1, part);
    },
    at(x) {
      const piece = find((one) => x <= one.x + one.width);
      return piece.from + ((x - piece.x) / piece.width) * (piece.until - piece.from);
    },
    folds: gaps.map((gap) => {
      const piece = pieces.find((one) => one.from === gap[0]) as Piece;
      return piece.x + piece.width / 2;
    }),
    isFolded: gaps.length > 0,
  };
}

function idleTimes(spans: [number, number][], from: number, until: number): [number, number][] {
  const sorted = [...spans].sort((one, other) => one[0] - other[0]);
  const gaps: [number, number][] = [];
  let [busy, last] = [0, from];
  for (const [start, end] of sorted) {
    if (start > last) gaps.push([last, start]);
    busy += Math.max(0, end - Math.max(start, last));
    last = Math.max(last, end);
  }
  if (until > last) gaps.push([last, until]);
  if (busy === 0) return [];
  const limit = Math.max(IDLE_MIN_MS, busy * IDLE_RATIO);
  return gaps
    .filter((gap) => gap[1] - gap[0] > limit)
    .sort((one, other) => other[1] - other[0] - (one[1] - one[0]))
    .slice(0, FOLDS_MAX)
    .sort((one, other) => one[0] - other[0]);
}

function piecesOf(gaps: [number, number][], from: number, until: number): Piece[] {
  const folded = gaps.reduce((sum, gap) => sum + gap[1] - gap[0], 0);
  const shown = until - from - folded;
  const width = gaps.length > 2 ? FOLD_WIDTH_MANY : FOLD_WIDTH;
  const room = 100 - gaps.length * width;
  const pieces: Piece[] = [];
  let [at, x] = [from, 0];
  const add = (end: number, width: number): void => {
    if (end <= at) return;
    pieces.push({ from: at, until: end, x, width });
    [at, x] = [end, x + width];
  };
  for (const [start, end] of gaps) {
    add(start, (room * (start - at)) / Math.max(1, shown));
    add(end, width);
  }
  add(until, (room * (until - at)) / Math.max(1, shown));
  return pieces;
}
