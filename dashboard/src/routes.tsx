// The table of pages. The sidebar, the palette, the keys and the key sheet are made from it.

import type { ComponentType } from "preact";
import { lazy } from "preact-iso";
import type { Permission } from "./api";
import type { IconName } from "./parts/sprite";
import { words } from "./words";

export interface Page {
  /** Below the root; a part that begins with a colon is a parameter. */
  path: string;
  page: ComponentType<{ params: Record<string, string>; query: Record<string, string> }>;
  /** In the sidebar, and in which of its groups. Pages of one thing are not there. */
  nav?: { label: string; icon: IconName; group: number };
  /** Goes there after `g`. */
  key?: string;
  /** Without this permission the page is not offered. */
  permission?: Permission;
}

export const pages: Page[] = [
  { path: "", page: lazy(() => import("./pages/home")), nav: { label: words.nav.home, icon: "home", group: 1 }, key: "h" },
  { path: "runs", page: lazy(() => import("./pages/runs")), nav: { label: words.nav.runs, icon: "runs", group: 1 }, key: "r" },
  { path: "runs/:run", page: lazy(() => import("./pages/run")) },
  { path: "compare", page: lazy(() => import("./pages/compare")) },
  { path: "compare/:left/:right", page: lazy(() => import("./pages/compare")) },
  { path: "errors", page: lazy(() => import("./pages/errors")), nav: { label: words.nav.errors, icon: "errors", group: 1 }, key: "e" },
  {
    path: "workflows",
    page: lazy(() => import("./pages/workflows")),
    nav: { label: words.nav.workflows, icon: "workflows", group: 2 },
    key: "f",
  },
  { path: "workflows/:workflow", page: lazy(() => import("./pages/workflow")) },
  {
    path: "events",
    page: lazy(() => import("./pages/events")),
    nav: { label: words.nav.events, icon: "events", group: 2 },
    key: "v",
  },
  {
    path: "triggers",
    page: lazy(() => import("./pages/triggers")),
    nav: { label: words.nav.triggers, icon: "play", group: 2 },
    key: "i",
  },
  {
    path: "outbox",
    page: lazy(() => import("./pages/outbox")),
    nav: { label: words.nav.outbox, icon: "out", group: 2 },
    key: "o",
  },
  {
    path: "schedules",
    page: lazy(() => import("./pages/schedules")),
    nav: { label: words.nav.schedules, icon: "schedules", group: 2 },
    key: "s",
  },
  { path: "schedules/:schedule", page: lazy(() => import("./pages/schedule")) },
  {
    path: "dead-letters",
    page: lazy(() => import("./pages/dead-letters")),
    nav: { label: words.nav.letters, icon: "dlq", group: 3 },
    key: "x",
  },
  {
    path: "alerts",
    page: lazy(() => import("./pages/alerts")),
    nav: { label: words.nav.alerts, icon: "alerts", group: 3 },
    key: "l",
  },
  {
    path: "workers",
    page: lazy(() => import("./pages/workers")),
    nav: { label: words.nav.workers, icon: "workers", group: 3 },
    key: "w",
  },
  {
    path: "doctor",
    page: lazy(() => import("./pages/doctor")),
    nav: { label: words.nav.doctor, icon: "doctor", group: 3 },
    key: "d",
  },
  {
    path: "bulk",
    page: lazy(() => import("./pages/bulks")),
    nav: { label: words.nav.bulk, icon: "bulk", group: 3 },
    key: "b",
  },
  { path: "bulk/:bulk", page: lazy(() => import("./pages/bulk")) },
  {
    path: "retention",
    page: lazy(() => import("./pages/retention")),
    nav: { label: words.nav.retention, icon: "retention", group: 4 },
    key: "p",
  },
  {
    path: "audit",
    page: lazy(() => import("./pages/audit")),
    nav: { label: words.nav.audit, icon: "audit", group: 4 },
    key: "a",
    permission: "audit",
  },
  {
    path: "settings",
    page: lazy(() => import("./pages/settings")),
    nav: { label: words.nav.settings, icon: "settings", group: 4 },
    key: ",",
  },
];
