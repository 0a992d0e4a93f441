// Keys of a list: the focus moves from row to row, and Enter follows the link that has it.

import { useRef } from "preact/hooks";
import { useKeys } from "../keys";

/** The element whose rows are walked. Each row has one link or button of the class `row-name`. */
export function useRowKeys<T extends HTMLElement>() {
  const list = useRef<T>(null);
  const move = (step: number) => {
    const all = [...(list.current?.querySelectorAll<HTMLElement>(".row-name") ?? [])];
    const row = document.activeElement?.closest("tr");
    const at = all.findIndex((one) => row && one.closest("tr") === row);
    all[Math.min(all.length - 1, Math.max(0, at + step))]?.focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
  return list;
}
