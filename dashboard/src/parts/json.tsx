// Stored values as JSON. They are text, whatever they hold.

import { useState } from "preact/hooks";
import { size } from "../formats";
import { words } from "../words";
import { CopyButton } from "./copy";

const FIRST_MAX = 4_000;
const ALL_MAX = 400_000;
const PIECE = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

/** Whether the API has hidden a payload from a caller without the right to see it. */
export function isHidden(value: unknown): boolean {
  return typeof value === "object" && value !== null && (value as { hidden?: unknown }).hidden === true && Object.keys(value).length === 1;
}

export function Json(props: { value: unknown; label: string }) {
  const [isWhole, setWhole] = useState(false);
  if (isHidden(props.value)) return <p class="none">{words.json.hidden}</p>;
  const whole = JSON.stringify(props.value, null, 2) ?? "null";
  const text = whole.slice(0, isWhole ? ALL_MAX : FIRST_MAX);
  return (
    <>
      <pre class="code" tabIndex={0} role="region" aria-label={props.label}>
        {paint(text)}
        {text.length < whole.length && "…"}
      </pre>
      <div class="row gap-t">
        {!isWhole && text.length < whole.length && (
          <button type="button" class="btn quiet sm" onClick={() => setWhole(true)}>
            {words.json.showAll(size(props.value))}
          </button>
        )}
        {isWhole && text.length < whole.length && <span class="dim small">{words.json.cut}</span>}
        <CopyButton text={whole} label={words.copy}>
          {words.copy}
        </CopyButton>
      </div>
    </>
  );
}

function paint(text: string) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(PIECE)) {
    const [all, quoted, colon, figure, name] = found;
    if (found.index > end) parts.push(text.slice(end, found.index));
    const kind = quoted ? (colon ? "k" : "s") : figure || name ? "d" : "";
    parts.push(
      <span key={found.index} class={kind}>
        {quoted ?? all}
      </span>,
    );
    if (colon) parts.push(colon);
    end = found.index + all.length;
  }
  parts.push(text.slice(end));
  return parts;
}
