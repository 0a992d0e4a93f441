// Where the dashboard is mounted, and how its own addresses are made.

/** The root of the dashboard: an absolute address that ends with a slash. The server wrote the way to it into the page. */
export const root = new URL(".", document.baseURI);

/** Keep the base where it is: it was relative to the first address, and the address changes. */
export function fixBase(): void {
  document.querySelector("base")?.setAttribute("href", root.href);
}

/** The address of a page, such as `runs` or `runs/ID`, with parameters after the question mark. */
export function to(path: string, query: Record<string, string | undefined> = {}): string {
  const address = new URL(path, root);
  for (const [name, value] of Object.entries(query)) if (value) address.searchParams.set(name, value);
  return address.pathname + address.search;
}

/** The address of one run. */
export function toRun(run: string, query: Record<string, string | undefined> = {}): string {
  return to(`runs/${encodeURIComponent(run)}`, query);
}

/** One word of the filter language that stands for itself. */
export function filterWord(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;
}

/** The path of an address below the root, without the query. */
export function below(address: string): string {
  return new URL(address, root).pathname.slice(root.pathname.length);
}

/** What the server wrote into the head of the page. */
export function written(name: "environment" | "door"): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? "";
}
