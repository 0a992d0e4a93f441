// What stands where nothing is, or not yet.

import type { ComponentChildren } from "preact";
import { Command } from "./copy";

/** An empty page teaches: one sentence, one command, one button. */
export function Empty(props: { title: string; text: string; command?: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{props.title}</h2>
      <p>{props.text}</p>
      {props.command && <Command text={props.command} />}
      {props.children && <div class="acts">{props.children}</div>}
    </div>
  );
}

/** An empty part of a full page is one grey line. */
export function None(props: { children: ComponentChildren }) {
  return <p class="none">{props.children}</p>;
}

/** Grey lines in the place of rows that are being read. They appear late: most answers come sooner. */
export function Skeleton(props: { rows?: number; label: string }) {
  return (
    <div class="skeleton" role="status" aria-label={props.label}>
      {Array.from({ length: props.rows ?? 6 }, (_, row) => (
        <span key={row} />
      ))}
    </div>
  );
}
