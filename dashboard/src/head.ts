// What stands above a page: its title in the tab of the browser, and where it is.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { words } from "./words";

export interface Crumb {
  text: string;
  href?: string;
  isCode?: boolean;
}

export const crumbs = signal<Crumb[]>([]);
/** Said to screen readers when a page has been opened. */
export const said = signal("");

/** Set the title and the way to this page. */
export function useHead(title: string, way: Crumb[]): void {
  useEffect(() => {
    document.title = `${title} · ${words.product}`;
  }, [title]);
  const text = JSON.stringify(way);
  useEffect(() => {
    crumbs.value = way;
  }, [text]);
}
