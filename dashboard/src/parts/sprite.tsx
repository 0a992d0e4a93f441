// Every icon and hatching, once in each page; `Icon` shows one. Drawn on a grid of 16, in the colour of the text.

export const iconNames = [
  "s-pending", "s-running", "s-waiting", "s-throttled", "s-paused", "s-retrying", "s-compensating", "s-completed",
  "s-failed", "s-compensated", "s-rollback_incomplete", "s-cancelled", "s-timed_out", "s-continued", "s-skipped",
  "s-warning", "s-undone", "brand", "home", "runs", "tasks", "errors", "workflows", "schedules", "queues", "events",
  "dlq", "alerts", "workers", "doctor", "bulk", "audit", "settings", "search", "copy", "out", "right", "left",
  "down", "up", "x", "plus", "more", "menu", "sun", "help", "columns", "download", "info", "play", "first", "last",
  "lock", "user", "loop", "test", "retention",
] as const;

export type IconName = (typeof iconNames)[number];

export function Sprite() {
  return (
    <svg class="sprite" aria-hidden="true" focusable="false">
      <defs>
        <Hatch id="hatch-idle" />
        <Hatch id="hatch-bad" />
        <Hatch id="hatch-undo" />
        <Hatch id="hatch-warn" />
        <Hatch id="hatch-wait" />
      </defs>
      <symbol id="s-pending" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" stroke-dasharray="0.1 3.35" stroke-width="2" />
      </symbol>
      <symbol id="s-running" viewBox="0 0 16 16">
        <path fill="currentColor" stroke="none" d="M5 3.2v9.6c0 .5.5.8.9.5l7-4.8a.6.6 0 0 0 0-1l-7-4.8c-.4-.3-.9 0-.9.5z" />
      </symbol>
      <symbol id="s-waiting" viewBox="0 0 16 16">
        <path d="M5.5 3.5v9M10.5 3.5v9" stroke-width="2.25" />
      </symbol>
      <symbol id="s-throttled" viewBox="0 0 16 16">
        <path d="M2.5 11.5a5.75 5.75 0 1 1 11 0M8 9.5l2.7-3.2" />
        <circle fill="currentColor" stroke="none" cx="8" cy="9.7" r="1.2" />
      </symbol>
      <symbol id="s-paused" viewBox="0 0 16 16">
        <path d="M5 8V4.2a1 1 0 0 1 2 0V7M7 7V3a1 1 0 0 1 2 0v4M9 7V3.7a1 1 0 0 1 2 0V8M11 8V5.6a1 1 0 0 1 2 0V9.5a4.3 4.3 0 0 1-4.3 4.3c-2.2 0-3.1-.9-4.1-2.6L3.1 8.7a1 1 0 0 1 1.7-1L5 8" stroke-width="1.25" />
      </symbol>
      <symbol id="s-retrying" viewBox="0 0 16 16">
        <path d="M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.7h-2.7" />
      </symbol>
      <symbol id="s-compensating" viewBox="0 0 16 16">
        <path d="M5.5 3 2.5 6l3 3M2.8 6H10a3.5 3.5 0 0 1 0 7H6.5" />
      </symbol>
      <symbol id="s-completed" viewBox="0 0 16 16">
        <path d="m3 8.5 3.3 3.3L13 4.7" stroke-width="1.9" />
      </symbol>
      <symbol id="s-failed" viewBox="0 0 16 16">
        <path d="m4 4 8 8M12 4l-8 8" stroke-width="1.9" />
      </symbol>
      <symbol id="s-compensated" viewBox="0 0 16 16">
        <path d="M4.3 2 2 4.3l2.3 2.3M2.2 4.3h6a3 3 0 0 1 2.6 1.5M6 11.3l2.3 2.3 5-5.3" />
      </symbol>
      <symbol id="s-rollback_incomplete" viewBox="0 0 16 16">
        <path d="M8 2.3 14.3 13.2H1.7z" />
        <path d="M8 6.5v3M8 11.3v.1" />
      </symbol>
      <symbol id="s-cancelled" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" />
        <path d="m4.2 11.8 7.6-7.6" />
      </symbol>
      <symbol id="s-timed_out" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" />
        <path d="M8 4.8V8l2.2 1.6" />
      </symbol>
      <symbol id="s-continued" viewBox="0 0 16 16">
        <path d="M6.7 9.3a2.6 2.6 0 0 0 3.8 0l2-2a2.7 2.7 0 0 0-3.8-3.8l-.8.8M9.3 6.7a2.6 2.6 0 0 0-3.8 0l-2 2a2.7 2.7 0 0 0 3.8 3.8l.8-.8" />
      </symbol>
      <symbol id="s-skipped" viewBox="0 0 16 16">
        <path d="M4 8h8" />
      </symbol>
      <symbol id="s-warning" viewBox="0 0 16 16">
        <path d="M8 2.3 14.3 13.2H1.7z" />
        <path d="M8 6.5v3M8 11.3v.1" />
      </symbol>
      <symbol id="s-undone" viewBox="0 0 16 16">
        <path d="M5.5 3 2.5 6l3 3M2.8 6H10a3.5 3.5 0 0 1 0 7H6.5" />
      </symbol>
      <symbol id="brand" viewBox="0 0 16 16">
        <path d="M1.5 3v3.3H4v3.3h2.5v3.4h3V9.6H12V6.3h2.5V3" />
      </symbol>
      <symbol id="home" viewBox="0 0 16 16">
        <path d="M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5" />
      </symbol>
      <symbol id="runs" viewBox="0 0 16 16">
        <path d="M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.1M2.5 8h.1M2.5 12h.1" />
      </symbol>
      <symbol id="tasks" viewBox="0 0 16 16">
        <path d="M2.5 9.5 4 3.5h8l1.5 6v3h-11zM2.5 9.5h3l1 1.5h3l1-1.5h3" />
      </symbol>
      <symbol id="errors" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" />
        <path d="M8 5v3.3M8 10.8v.1" />
      </symbol>
      <symbol id="workflows" viewBox="0 0 16 16">
        <rect x="2.5" y="2.5" width="4" height="3.5" rx="1" />
        <rect x="9.5" y="10" width="4" height="3.5" rx="1" />
        <path d="M4.5 6v3.5a2.2 2.2 0 0 0 2.2 2.2h2.8" />
      </symbol>
      <symbol id="schedules" viewBox="0 0 16 16">
        <rect x="2.5" y="3.5" width="11" height="10" rx="1.5" />
        <path d="M2.5 6.8h11M5.5 2v2.5M10.5 2v2.5" />
      </symbol>
      <symbol id="queues" viewBox="0 0 16 16">
        <path d="M3 3.5h10M3 6.5h10M3 9.5h6M3 12.5h6" />
      </symbol>
      <symbol id="events" viewBox="0 0 16 16">
        <path d="M8.8 2 3.8 9h3.7l-.8 5 5.5-7.2H8.3z" />
      </symbol>
      <symbol id="dlq" viewBox="0 0 16 16">
        <path d="M2.5 4h11v8h-11zM2.5 4.5 8 8.8l5.5-4.3" />
      </symbol>
      <symbol id="alerts" viewBox="0 0 16 16">
        <path d="M4 11V7.2a4 4 0 0 1 8 0V11l1 1H3zM6.8 14h2.4" />
      </symbol>
      <symbol id="workers" viewBox="0 0 16 16">
        <rect x="2.5" y="3" width="11" height="4" rx="1" />
        <rect x="2.5" y="9" width="11" height="4" rx="1" />
        <path d="M5 5h.1M5 11h.1" />
      </symbol>
      <symbol id="doctor" viewBox="0 0 16 16">
        <path d="M1.8 8.5h3l1.7-4.5 3 8 1.7-3.5h3" />
      </symbol>
      <symbol id="bulk" viewBox="0 0 16 16">
        <path d="m8 2.5 5.5 2.8L8 8 2.5 5.3zM2.5 8 8 10.8 13.5 8M2.5 10.8 8 13.5l5.5-2.7" />
      </symbol>
      <symbol id="audit" viewBox="0 0 16 16">
        <path d="M4 2.5h8v11l-2-1.3-2 1.3-2-1.3-2 1.3zM6 6h4M6 8.8h4" />
      </symbol>
      <symbol id="settings" viewBox="0 0 16 16">
        <path d="M2.5 4.5h6M12 4.5h1.5M2.5 11.5H4M7.5 11.5h6" />
        <circle cx="10.2" cy="4.5" r="1.7" />
        <circle cx="5.7" cy="11.5" r="1.7" />
      </symbol>
      <symbol id="search" viewBox="0 0 16 16">
        <circle cx="7" cy="7" r="4.2" />
        <path d="m10.2 10.2 3.3 3.3" />
      </symbol>
      <symbol id="copy" viewBox="0 0 16 16">
        <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
        <path d="M10.5 3.5v-.3a.7.7 0 0 0-.7-.7H3.2a.7.7 0 0 0-.7.7v6.6c0 .4.3.7.7.7h.3" />
      </symbol>
      <symbol id="out" viewBox="0 0 16 16">
        <path d="M6.5 3.5h-3v9h9v-3M9 3.5h3.5V7M12.3 3.7 7.5 8.5" />
      </symbol>
      <symbol id="right" viewBox="0 0 16 16">
        <path d="m6 3.5 4.5 4.5L6 12.5" />
      </symbol>
      <symbol id="left" viewBox="0 0 16 16">
        <path d="M10 3.5 5.5 8l4.5 4.5" />
      </symbol>
      <symbol id="down" viewBox="0 0 16 16">
        <path d="M3.5 6 8 10.5 12.5 6" />
      </symbol>
      <symbol id="up" viewBox="0 0 16 16">
        <path d="M3.5 10 8 5.5l4.5 4.5" />
      </symbol>
      <symbol id="x" viewBox="0 0 16 16">
        <path d="m4 4 8 8M12 4l-8 8" />
      </symbol>
      <symbol id="plus" viewBox="0 0 16 16">
        <path d="M8 3v10M3 8h10" />
      </symbol>
      <symbol id="more" viewBox="0 0 16 16">
        <path d="M3.5 8h.1M8 8h.1M12.5 8h.1" stroke-width="2.25" />
      </symbol>
      <symbol id="menu" viewBox="0 0 16 16">
        <path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" />
      </symbol>
      <symbol id="sun" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="3" />
        <path d="M8 1.8v1M8 13.2v1M1.8 8h1M13.2 8h1M3.6 3.6l.7.7M11.7 11.7l.7.7M12.4 3.6l-.7.7M4.3 11.7l-.7.7" />
      </symbol>
      <symbol id="help" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.8" />
        <path d="M6.3 6.3a1.8 1.8 0 1 1 2.5 1.6c-.5.2-.8.6-.8 1.2M8 11.2v.1" />
      </symbol>
      <symbol id="columns" viewBox="0 0 16 16">
        <rect x="2.5" y="3" width="11" height="10" rx="1.5" />
        <path d="M6.2 3v10M9.8 3v10" />
      </symbol>
      <symbol id="download" viewBox="0 0 16 16">
        <path d="M8 2.5v7.5M5 7.2l3 3 3-3M3 13h10" />
      </symbol>
      <symbol id="info" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.8" />
        <path d="M8 7.3v3.5M8 5.2v.1" />
      </symbol>
      <symbol id="play" viewBox="0 0 16 16">
        <path d="M5 3.2v9.6l7.5-4.8z" />
      </symbol>
      <symbol id="first" viewBox="0 0 16 16">
        <path d="M4 3.5v9M12 3.5 7 8l5 4.5" />
      </symbol>
      <symbol id="last" viewBox="0 0 16 16">
        <path d="M12 3.5v9M4 3.5 9 8l-5 4.5" />
      </symbol>
      <symbol id="lock" viewBox="0 0 16 16">
        <rect x="3.5" y="7" width="9" height="6.5" rx="1.2" />
        <path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2" />
      </symbol>
      <symbol id="user" viewBox="0 0 16 16">
        <circle cx="8" cy="5.5" r="2.5" />
        <path d="M3 13.5c.6-2.6 2.5-4 5-4s4.4 1.4 5 4" />
      </symbol>
      <symbol id="loop" viewBox="0 0 16 16">
        <path d="M3 8.5V7a2.5 2.5 0 0 1 2.5-2.5H13M11 2.5l2 2-2 2M13 7.5V9a2.5 2.5 0 0 1-2.5 2.5H3M5 13.5l-2-2 2-2" />
      </symbol>
      <symbol id="retention" viewBox="0 0 16 16">
        <path d="M2.2 3h11.6v3H2.2zM3.2 6v6.4c0 .4.3.6.6.6h8.4c.3 0 .6-.2.6-.6V6M6.4 8.8h3.2" />
      </symbol>
      <symbol id="test" viewBox="0 0 16 16">
        <path d="M6 2.5h4M6.8 2.5V7L3.5 12.3c-.3.6.1 1.2.7 1.2h7.6c.6 0 1-.6.7-1.2L9.2 7V2.5M5.3 10h5.4" />
      </symbol>
    </svg>
  );
}

function Hatch(props: { id: string }) {
  return (
    <pattern class="hatch" id={props.id} width="4" height="4" patternUnits="userSpaceOnUse">
      <path d="M-1 1l2-2M0 4l4-4M3 5l2-2" />
    </pattern>
  );
}
