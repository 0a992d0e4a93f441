// A menu behind a button.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** A menu that closes when something in it is chosen, when the focus leaves it, and with Escape. */
export function Menu(props: {
  label: string;
  class?: string;
  /** How its button looks; that of an icon otherwise. */
  summary?: string;
  button: ComponentChildren;
  children: ComponentChildren;
}) {
  const menu = useRef<HTMLDetailsElement>(null);
  const close = () => menu.current?.removeAttribute("open");
  useEffect(() => {
    const elsewhere = (event: MouseEvent) => {
      if (event.target instanceof Node && !menu.current?.contains(event.target)) close();
    };
    document.addEventListener("mousedown", elsewhere);
    return () => document.removeEventListener("mousedown", elsewhere);
  }, []);
  return (
    <details
      ref={menu}
      class={`menu ${props.class ?? ""}`}
      onFocusOut={(event) => {
        if (event.relatedTarget instanceof Node && !menu.current?.contains(event.relatedTarget)) close();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !menu.current?.open) return;
        event.preventDefault();
        close();
        menu.current.querySelector("summary")?.focus();
      }}
    >
      <summary class={props.summary ?? "icon-btn"} aria-label={props.label} title={props.label}>
        {props.button}
      </summary>
      <div
        class="sheet"
        onClick={(event) => {
          if (event.target instanceof Element && event.target.closest("button")) close();
        }}
      >
        {props.children}
      </div>
    </details>
  );
}
