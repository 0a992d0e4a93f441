// Keys: one table for what they do and for the sheet that lists them.

import { useEffect, useRef } from "preact/hooks";
import { letterKeys } from "./settings";
import { words } from "./words";

export type KeyPlace = "everywhere" | "go" | "list" | "run" | "tree";

export interface Key {
  place: KeyPlace;
  /** As on the keyboard; a space stands between keys that are pressed one after the other. */
  keys: string[];
  word: string;
}

/** Every key but those that go to a page: these are in the table of routes. */
export const keyTable: Key[] = [
  { place: "everywhere", keys: ["/", "mod+k"], word: words.keys.search },
  { place: "everywhere", keys: ["?"], word: words.keys.sheet },
  { place: "everywhere", keys: ["f"], word: words.keys.filter },
  { place: "everywhere", keys: ["."], word: words.keys.acts },
  { place: "everywhere", keys: ["y"], word: words.keys.link },
  { place: "everywhere", keys: ["Escape"], word: words.keys.close },
  { place: "list", keys: ["j", "ArrowDown"], word: words.keys.down },
  { place: "list", keys: ["k", "ArrowUp"], word: words.keys.up },
  { place: "list", keys: ["Enter"], word: words.keys.open },
  { place: "list", keys: ["w"], word: words.keys.why },
  { place: "list", keys: ["x"], word: words.keys.select },
  { place: "run", keys: ["1 … 9"], word: words.keys.tabs },
  { place: "run", keys: ["[", "]"], word: words.keys.neighbours },
  { place: "tree", keys: ["ArrowUp", "ArrowDown"], word: words.keys.move },
  { place: "tree", keys: ["ArrowLeft", "ArrowRight"], word: words.keys.fold },
  { place: "tree", keys: ["Home", "End"], word: words.keys.ends },
  { place: "tree", keys: ["Enter"], word: words.keys.details },
  { place: "tree", keys: ["n", "p"], word: words.keys.failures },
];

type Handler = (event: KeyboardEvent) => void;
type Handlers = Record<string, Handler>;

const layers: { current: Handlers }[] = [];
let pending = "";
let pendingTimer: ReturnType<typeof setTimeout> | undefined;
const SEQUENCE_MS = 1_200;

/** Handle keys as long as this part is on the page. The part that came last is asked first. */
export function useKeys(handlers: Handlers): void {
  const layer = useRef(handlers);
  layer.current = handlers;
  useEffect(() => {
    layers.push(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

/** Listen to the keyboard. Called once. */
export function startKeys(): void {
  document.addEventListener("keydown", pressed);
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const isMod = event.ctrlKey || event.metaKey;
  if (isMod && event.key.toLowerCase() === "k" && !event.altKey && !event.shiftKey) {
    handle("mod+k", event);
    return;
  }
  if (isMod || event.altKey || isTyping(event) || document.querySelector("dialog[open]")) return;
  if (event.key.length === 1 && event.key !== " " && letterKeys.value === "off") return;
  const name = pending ? `${pending} ${event.key}` : event.key;
  clearTimeout(pendingTimer);
  pending = "";
  if (handle(name, event)) return;
  if (name === event.key && startsSequence(name)) {
    pending = name;
    pendingTimer = setTimeout(() => (pending = ""), SEQUENCE_MS);
  }
}

function handle(name: string, event: KeyboardEvent): boolean {
  for (const layer of [...layers].reverse()) {
    const handler = layer.current[name];
    if (handler) {
      event.preventDefault();
      handler(event);
      return true;
    }
  }
  return false;
}

function startsSequence(name: string): boolean {
  return layers.some((layer) => Object.keys(layer.current).some((keys) => keys.startsWith(`${name} `)));
}

/** Whether the event belongs to a field, or to a part that has keys of its own. */
function isTyping(event: KeyboardEvent): boolean {
  const { target } = event;
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest("textarea, select, [contenteditable]")) return true;
  const input = target.closest("input");
  if (input) return !["checkbox", "radio", "button"].includes(input.type);
  // Enter and the blank are for the button or link that has the focus.
  return ["Enter", " "].includes(event.key) && target.closest("a, button, summary") !== null;
}
