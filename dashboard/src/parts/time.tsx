// Times. Each has its machine-readable form, and its whole form where the mouse or a screen reader asks.

import { now, seconds } from "../clock";
import { distance, duration, fullTime, shortTime } from "../formats";

export function at(text: string): number {
  return Date.parse(text);
}

/** A time in a table. */
export function Time(props: { at: string | null }) {
  if (!props.at) return null;
  return (
    <time dateTime={props.at} title={fullTime(at(props.at), { exact: true })}>
      {shortTime(at(props.at), now())}
    </time>
  );
}

/** A whole time with its zone, and how far it is from now. */
export function FullTime(props: { at: string; exact?: boolean; isBare?: boolean }) {
  const ms = at(props.at);
  return (
    <>
      <time dateTime={props.at}>{fullTime(ms, { exact: props.exact ?? false })}</time>
      {!props.isBare && <span class="dim nowrap"> {distance(ms, seconds.value * 1_000)}</span>}
    </>
  );
}

/** How far a time is from now. */
export function Ago(props: { at: string }) {
  return (
    <time dateTime={props.at} title={fullTime(at(props.at), { exact: true })}>
      {distance(at(props.at), seconds.value * 1_000)}
    </time>
  );
}

/** How long something took, or takes until now. */
export function Took(props: { from: string | null; until: string | null }) {
  if (!props.from) return null;
  const end = props.until ? at(props.until) : seconds.value * 1_000;
  return <>{duration(end - at(props.from))}</>;
}
