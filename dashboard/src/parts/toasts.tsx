// Short messages about what was done. A message stays as long as somebody points at it; an error until it is closed.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api";
import { words } from "../words";
import { Icon, IconButton } from "./icon";

const SHOWN_MS = 6_000;

export interface Toast {
  title: string;
  text?: string;
  link?: { href: string; text: string };
  isError?: boolean;
}

const toasts = signal<(Toast & { id: number })[]>([]);
let lastId = 0;

export function toast(one: Toast): void {
  lastId += 1;
  toasts.value = [...toasts.value.slice(-3), { ...one, id: lastId }];
}

/** Say why an act failed. */
export function toastProblem(title: string, error: unknown): void {
  const found = error instanceof Problem ? error : new Problem({ status: -1, title: String(error) });
  toast({ title, text: [found.title, found.fix, found.code].filter(Boolean).join(" · "), isError: true });
}

function close(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function Toasts() {
  const [said, errors] = [toasts.value.filter((one) => !one.isError), toasts.value.filter((one) => one.isError)];
  return (
    <div class="toasts">
      <div role="status">
        {said.map((one) => (
          <Shown key={one.id} one={one} />
        ))}
      </div>
      <div role="alert">
        {errors.map((one) => (
          <Shown key={one.id} one={one} />
        ))}
      </div>
    </div>
  );
}

function Shown(props: { one: Toast & { id: number } }) {
  const { one } = props;
  const [isHeld, setHeld] = useState(false);
  useEffect(() => {
    if (one.isError || isHeld) return;
    const timer = setTimeout(() => close(one.id), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isHeld]);
  return (
    <div
      class={`toast ${one.isError ? "t-bad" : ""}`}
      onMouseEnter={() => setHeld(true)}
      onMouseLeave={() => setHeld(false)}
      onFocusCapture={() => setHeld(true)}
      onBlurCapture={() => setHeld(false)}
    >
      <Icon name={one.isError ? "s-failed" : "s-completed"} />
      <div>
        <b class="strong">{one.title}</b>
        {one.text && <p class="two">{one.text}</p>}
      </div>
      <span class="row nowrap-row">
        {one.link && <a href={one.link.href}>{one.link.text}</a>}
        <IconButton small icon="x" label={words.dismiss} onClick={() => close(one.id)} />
      </span>
    </div>
  );
}
