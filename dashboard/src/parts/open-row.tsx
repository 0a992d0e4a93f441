// A row of a table that is folded open: its first cell has the button, and the row below it the details.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "./icon";

export function OpenRow(props: { name: ComponentChildren; cells: ComponentChildren; columns: number; children: () => ComponentChildren; isOpen?: boolean }) {
  const [isOpen, setOpen] = useState(props.isOpen ?? false);
  return (
    <>
      <tr aria-selected={isOpen ? "true" : undefined}>
        <td>
          <button type="button" class="row-open row-name" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            <Icon name="right" />
            {props.name}
          </button>
        </td>
        {props.cells}
      </tr>
      {isOpen && (
        <tr class="detail-row">
          <td colSpan={props.columns} class="detail-cell">
            <div class="detail">{props.children()}</div>
          </td>
        </tr>
      )}
    </>
  );
}

/** A value in one line of a table. */
export function brief(value: unknown): string {
  return JSON.stringify(value) ?? "null";
}
