// Icons, and the status of a run.

import type { ComponentChildren } from "preact";
import type { Run, Wait } from "../api";
import { looks, type Shown, shownOf, wordOf } from "../statuses";
import { words } from "../words";
import type { IconName } from "./sprite";

export function Icon(props: { name: IconName; class?: string }) {
  return (
    <svg class={`i ${props.class ?? ""}`} aria-hidden="true">
      <use href={`#${props.name}`} />
    </svg>
  );
}

/** A button that shows only an icon. */
export function IconButton(props: {
  icon: IconName;
  label: string;
  onClick: (event: MouseEvent) => void;
  small?: boolean;
  class?: string;
  disabled?: boolean;
}) {
  return (
    <button
      type="button"
      class={`icon-btn ${props.small ? "sm" : ""} ${props.class ?? ""}`}
      aria-label={props.label}
      title={props.label}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
    </button>
  );
}

/** A status in a row, or as a pill in the head of a page. */
export function StatusMark(props: { shown: Shown; isBadge?: boolean; children: ComponentChildren }) {
  const look = looks[props.shown];
  const isLoud = look.isLoud && !props.isBadge;
  return (
    <span class={`st st-${props.shown} ${isLoud ? "loud" : ""} ${props.isBadge ? "badge" : ""}`}>
      <Icon name={look.icon} />
      {props.children}
    </span>
  );
}

/** The status of a run. */
export function Status(props: { run: Run; waits?: Wait[]; isBadge?: boolean }) {
  return (
    <StatusMark shown={shownOf(props.run, props.waits)} isBadge={props.isBadge ?? false}>
      <span class="ell">{wordOf(props.run, props.waits)}</span>
    </StatusMark>
  );
}

/** A status by its icon alone, named for those who do not see it. */
export function StatusIcon(props: { shown: Shown }) {
  return (
    <span class={`st st-${props.shown}`}>
      <Icon name={looks[props.shown].icon} />
      <span class="vh">{words.statuses[props.shown]}</span>
    </span>
  );
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** A long id, shortened in the middle; copied, it is whole. */
export function Mid(props: { text: string; tail?: number }) {
  const tail = props.tail ?? 6;
  const characters = [...props.text];
  // Of a text that is written from the right, the parts would stand in the wrong order.
  if (characters.length <= tail + 8 || RIGHT_TO_LEFT.test(props.text))
    return (
      <bdi class="ell" title={props.text}>
        {props.text}
      </bdi>
    );
  return (
    <span class="mid" title={props.text}>
      <span>{characters.slice(0, -tail).join("")}</span>
      <span>{characters.slice(-tail).join("")}</span>
    </span>
  );
}
