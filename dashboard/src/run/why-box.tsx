// Why a run is where it is: one sentence, what goes with it, and the acts that move it on.

import type { Offer } from "../acts";
import type { Failure, Run, Schemas } from "../api";
import { ActBar } from "../parts/acts";
import { Icon } from "../parts/icon";
import { FullTime } from "../parts/time";
import { toRun } from "../place";
import { looks, originOf, OWN, shownOf, summaryOf, type Tone } from "../statuses";
import { words } from "../words";
import { everyPlace, find, UNDO, undonePath } from "./places";
import type { RunRecord, RunTree, Undo } from "./record";

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
      <Label tone={tone} icon={run.status === "compensated" ? "s-failed" : looks[shown].icon} text={words.why.labels[labelOf(run.status)]} />
      <h2 id="why">
        <Headline record={props.record} first={first} />
      </h2>
      <Facts record={props.record} causes={first ? [...first.causes, ...others] : others} notes={why?.notes ?? []} />
      <ActBar offers={props.offers} />
    </section>
  );
}

/** Whether the failure is one of the code at a place: then its place and its error say it best. */
function isPlainFailure(run: Run): boolean {
  if (!run.failure || (run.status !== "failed" && run.status !== "compensated")) return false;
  const origin = originOf(run.failure);
  return origin.path !== "" && origin.failure.recorded === "";
}

/** The failure of an undo that stopped a rollback, and the failure of the run before it. */
function stopOf(run: Run): { undo: Failure; own: Failure | undefined } | undefined {
  if (run.status !== "compensation_failed" || !run.failure?.path.includes(UNDO)) return undefined;
  const { [OWN]: own, ...causes } = run.failure.causes;
  return { undo: { ...run.failure, causes }, own };
}

const BRIEF_MAX = 240;

/** The beginning of a long text; the whole of it is beside the step. */
function brief(text: string): string {
  const characters = [...text];
  return characters.length <= BRIEF_MAX ? text : `${characters.slice(0, BRIEF_MAX).join("")}…`;
}

function Headline(props: { record: RunRecord; first: Cause | undefined }) {
  const { run, tree } = props.record;
  const stop = stopOf(run);
  if (stop)
    return (
      <>
        <code>{undonePath(stop.undo.path)}</code> {words.why.notUndone} <bdi>{brief(summaryOf(originOf(stop.undo).failure))}</bdi>.
      </>
    );
  if (run.failure && isPlainFailure(run)) return <Failed failure={run.failure} tree={tree} />;
  return props.first ? <Sentence cause={props.first} /> : <>{words.why.none}</>;
}

/** What a failure says of itself: the place, the error, and how often it was tried. */
function Failed(props: { failure: Failure; tree: RunTree | undefined }) {
  const { failure, path, others } = originOf(props.failure);
  const attempts = (props.tree && find(props.tree.root, path)?.node.entry?.attempts) ?? failure.attempts;
  return (
    <>
      <code>{path}</code> {words.why.raised} <bdi>{brief(summaryOf(failure))}</bdi>
      {words.why.after(attempts)}
      {words.reasons.others(others)}.
    </>
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

/** How it was at an earlier line: what was at work then. Nothing can be done to the past. */
export function ThenBox(props: { tree: RunTree }) {
  const said = words.travel;
  const { body, root } = props.tree;
  const open = everyPlace(root).filter((place) => place.node.open_since);
  return (
    <section class="why t-idle" aria-labelledby="why">
      <p class="label">
        <Icon name="s-timed_out" />
        <span>
          {said.as} <FullTime at={body.moment} exact isBare />
        </span>
      </p>
      <h2 id="why">
        {open.length === 0
          ? said.idle
          : [
              said.busy(open.length),
              ...open.slice(0, PATHS_MAX).map((place) => (
                <>
                  {" "}
                  <code key={place.node.path}>{place.node.path}</code>
                </>
              )),
              open.length > PATHS_MAX && ` ${words.why.more(open.length - PATHS_MAX)}`,
            ]}
      </h2>
      <ul class="facts">
        <li>{said.off}</li>
      </ul>
    </section>
  );
}

const CAUSES_MAX = 4;

function Facts(props: { record: RunRecord; causes: Cause[]; notes: string[] }) {
  const { run, tree, undos } = props.record;
  const undone = undos.filter((one) => one.state === "undone");
  const left = undos.filter((one) => one.state === "not undone" || one.state === "failed");
  const own = stopOf(run)?.own;
  const hasUndos = undone.length > 0 || (left.length > 0 && run.status !== "completed");
  if (props.causes.length + props.notes.length === 0 && !hasUndos) return <div class="facts" />;
  return (
    <ul class="facts">
      {own && (
        <li>
          {words.why.began} <Failed failure={own} tree={tree} />
        </li>
      )}
      {undone.length > 0 && (
        <li>
          {words.why.undone(undone.length)} <Paths undos={undone} />
        </li>
      )}
      {left.length > 0 && run.status !== "completed" && (
        <li>
          {words.why.left(left.length)} <Paths undos={left} />
        </li>
      )}
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

const PATHS_MAX = 4;

function Paths(props: { undos: Undo[] }) {
  return (
    <>
      {props.undos.slice(0, PATHS_MAX).map((one, place) => (
        <span key={one.path}>
          {place > 0 && ", "}
          <code>{one.path}</code>
        </span>
      ))}
      {props.undos.length > PATHS_MAX && ` ${words.why.more(props.undos.length - PATHS_MAX)}`}
    </>
  );
}
