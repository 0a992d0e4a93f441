// Dialogs: the browser's own, so that focus stays inside, Escape closes, and the opener gets the focus back.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { words } from "../words";
import { IconButton } from "./icon";

export function Dialog(props: {
  class?: string;
  label: string;
  onClose: () => void;
  children: ComponentChildren;
  /** Closing is refused, as long as somebody has to sign in. */
  isHeld?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.class ?? ""}
      aria-label={props.label}
      onCancel={(event) => {
        // A picker inside the dialog, such as that of a file, has a cancel of its own.
        if (event.target !== dialog.current) return;
        event.preventDefault();
        if (!props.isHeld) props.onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === dialog.current && !props.isHeld) props.onClose();
      }}
    >
      {props.children}
    </dialog>
  );
}

export function DialogHead(props: { title: string; text?: ComponentChildren; onClose?: () => void }) {
  return (
    <header class="dialog-head">
      <div>
        <h2>{props.title}</h2>
        {props.text && <p class="sub">{props.text}</p>}
      </div>
      {props.onClose && <IconButton icon="x" label={words.close} onClick={props.onClose} />}
    </header>
  );
}
