// Things to copy: values, and the command that does the same as a button.

import { useRef, useState } from "preact/hooks";
import { words } from "../words";
import { Icon } from "./icon";

/** Copy a text, also where the browser offers no clipboard to a page without TLS. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.style.position = "fixed";
  field.style.opacity = "0";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function CopyButton(props: { text: string; label: string; class?: string; children?: string }) {
  const [isDone, setDone] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const act = async () => {
    await copy(props.text);
    setDone(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setDone(false), 1_500);
  };
  const label = isDone ? words.copied : props.label;
  return (
    <button
      type="button"
      class={props.children ? "btn quiet sm" : `icon-btn sm ${props.class ?? ""}`}
      aria-label={props.children ? undefined : label}
      title={label}
      onClick={() => void act()}
    >
      <Icon name={isDone ? "s-completed" : "copy"} />
      {props.children && (isDone ? words.copied : props.children)}
    </button>
  );
}

/** A command line, and a button that copies it. */
export function Command(props: { text: string; isBox?: boolean }) {
  return (
    <div class={`cmd ${props.isBox ? "box" : ""}`}>
      <code>{props.text}</code>
      <CopyButton text={props.text} label={words.copyCommand} />
    </div>
  );
}
