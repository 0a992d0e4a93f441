// Why a run is where it is: one sentence, what goes with it, and the acts that move it on.

import type { Offer } from "../acts";
import type { Schemas } from "../api";
import { ActBar } from "../parts/acts";
import { Icon } from "../parts/icon";
import { toRun } from "../place";
import { looks, shownOf, type Tone } from "../statuses";
import { words } from "../words";
import type { RunRecord } from "./record";

type Cause = Schemas["CauseBody"];

const TONES: Partial<Record<string, Tone>> = {
  failed: "bad",
  compensated: "bad",
  compensation_failed: "bad",
  paused: "warn",
  pending: "idle",
  running: "run",
  cancelled: "idle",
  continued: "idle",
  compensating: "undo",
  cancelling: "undo",
};

export function WhyBox(props: { record: RunRecord; offers: Offer[] }) {
  const { run, why, waits } = props.record;
  const causes = why?.chain ?? [];
  const [first, ...others] = causes;
  if (run.unreadable)
    return (
      <section class="why t-bad" aria-labelledby="why">
        <Label tone="bad" icon="s-warning" text={words.why.unreadable} />
        <h2 id="why">{run.unreadable}</h2>
      </section>
    );
  // A run that has completed needs no reason, and often no act.
  if (!first && run.status === "completed")
    return props.offers.length > 0 ? (
      <div class="why-acts">
        <ActBar offers={props.offers} hasPrimary={false} />
      </div>
    ) : null;
  const shown = shownOf(run, waits);
  const tone = TONES[run.status] ?? looks[shown].tone;
  return (
    <section class={`why t-${tone}`} aria-labelledby="why">
      <Label tone={tone} icon={looks[shown].icon} text={words.why.labels[labelOf(run.status)]} />
      <h2 id="why">{first ? <Sentence cause={first} /> : words.why.none}</h2>
      <Facts causes={first ? [...first.causes, ...others] : others} notes={why?.notes ?? []} />
      <ActBar offers={props.offers} />
    </section>
  );
}

function labelOf(status: string): keyof typeof words.why.labels {
  switch (status) {
    case "failed":
    case "compensated":
      return "failed";
    case "compensation_failed":
      return "rollback";
    case "cancelled":
      return "cancelled";
    case "continued":
      return "continued";
    case "running":
    case "compensating":
    case "cancelling":
      return "moving";
    default:
      return "still";
  }
}

function Label(props: { tone: Tone; icon: "s-warning" | (typeof looks)[keyof typeof looks]["icon"]; text: string }) {
  return (
    <p class="label">
      <Icon name={props.icon} />
      {props.text}
    </p>
  );
}

/** A sentence of the server, with a capital letter and a full stop. */
function Sentence(props: { cause: Cause }) {
  const { sentence } = props.cause;
  const begun = sentence.charAt(0).toUpperCase() + sentence.slice(1);
  return <bdi>{/[.!?…]$/.test(begun) ? begun : `${begun}.`}</bdi>;
}

const CAUSES_MAX = 4;

function Facts(props: { causes: Cause[]; notes: string[] }) {
  if (props.causes.length + props.notes.length === 0) return <div class="facts" />;
  return (
    <ul class="facts">
      {props.causes.slice(0, CAUSES_MAX).map((cause) => (
        <li key={`${cause.run_id} ${cause.sentence}`}>
          <Sentence cause={cause} /> <a href={toRun(cause.run_id)}>{words.why.thatRun}</a>
        </li>
      ))}
      {props.causes.length > CAUSES_MAX && <li>{words.why.more(props.causes.length - CAUSES_MAX)}</li>}
      {props.notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
}
