// What a list of runs can show of each. The names are those of saved views, so that a view looks alike everywhere.

import type { ComponentChildren } from "preact";
import type { Run, Schemas } from "../api";
import { Mid, Status } from "../parts/icon";
import { Time, Took } from "../parts/time";
import { toRun } from "../place";
import { reasonOf } from "../statuses";
import { words } from "../words";

export type Reason = Schemas["ReasonBody"];

export interface Column {
  name: string;
  label: string;
  /** Of its `col`, and of its cells. */
  size?: string;
  cell?: string;
  /** The field of the order that its head chooses. */
  sort?: string;
  show: (run: Run, reason: Reason | undefined) => ComponentChildren;
}

const said = words.columns;
const ATTRIBUTE = "attr.";

function because(run: Run, reason: Reason | undefined): Reason {
  if (reason) return reason;
  const own = reasonOf(run);
  return { where: own.path, why: own.text };
}

const COLUMNS: Column[] = [
  { name: "status", label: words.runs.status, size: "c-status", show: (run) => <Status run={run} /> },
  { name: "key", label: words.runs.run, cell: "full", show: (run) => <Name run={run} /> },
  { name: "run", label: said.id, size: "c-id", cell: "hide-s path", show: (run) => <Mid text={run.run_id} /> },
  { name: "title", label: said.title, size: "c-title", cell: "hide-s", show: (run) => run.title && <bdi>{run.title}</bdi> },
  {
    name: "workflow",
    label: words.runs.workflow,
    size: "c-wf",
    cell: "hide-s wf",
    show: (run) => (
      <>
        <bdi>{run.workflow}</bdi> <span class="ver">v{run.version}</span>
      </>
    ),
  },
  { name: "where", label: said.where, size: "c-title", cell: "hide-s path", show: (run, reason) => because(run, reason).where },
  { name: "why", label: words.runs.why, size: "c-why", cell: "full", show: (run, reason) => <Why {...because(run, reason)} /> },
  { name: "tags", label: said.tags, size: "c-title", cell: "hide-s", show: (run) => <Tags run={run} /> },
  { name: "attributes", label: said.attributes, size: "c-title", cell: "hide-s", show: (run) => Object.entries(run.attributes).map(([name, value]) => `${name}=${String(value)}`).join(", ") },
  { name: "parent", label: said.parent, size: "c-id", cell: "hide-s path", show: (run) => run.parent && <a href={toRun(run.parent)}><Mid text={run.parent} /></a> },
  { name: "started_by", label: said.startedBy, size: "c-took", cell: "hide-s", show: (run) => run.started_by && <bdi>{run.started_by}</bdi> },
  { name: "created", label: words.runs.created, size: "c-time", cell: "num two age-s", sort: "created", show: (run) => <Time at={run.created_at} /> },
  { name: "started", label: said.started, size: "c-time", cell: "num two hide-s", sort: "started", show: (run) => <Time at={run.started_at} /> },
  { name: "ended", label: said.ended, size: "c-time", cell: "num two hide-s", sort: "ended", show: (run) => <Time at={run.ended_at} /> },
  { name: "took", label: words.runs.took, size: "c-took", cell: "num hide-s", sort: "took", show: (run) => <Took from={run.started_at} until={run.ended_at} /> },
];

export const DEFAULT = ["status", "key", "workflow", "why", "created", "took"];

/** A page with more columns than these scrolls its table sideways. */
export const FITTING = 8;

export function columnOf(name: string): Column | undefined {
  if (!name.startsWith(ATTRIBUTE)) return COLUMNS.find((one) => one.name === name);
  const attribute = name.slice(ATTRIBUTE.length);
  return {
    name,
    label: attribute,
    size: "c-took",
    cell: "hide-s",
    sort: name,
    show: (run) => attribute in run.attributes && <bdi>{String(run.attributes[attribute])}</bdi>,
  };
}

/** The columns with these names, in the order of the table; names that are not known are left out. */
export function columnsOf(names: string[]): Column[] {
  const places = new Map(COLUMNS.map((one, place) => [one.name, place]));
  return names
    .flatMap((name) => columnOf(name) ?? [])
    .sort((one, other) => (places.get(one.name) ?? 11.5) - (places.get(other.name) ?? 11.5));
}

/** What can be chosen: every column, and the attributes of the runs that are shown. */
export function choices(runs: Run[], chosen: string[]): Column[] {
  const attributes = new Set(runs.flatMap((run) => Object.keys(run.attributes)).map((name) => ATTRIBUTE + name));
  for (const name of chosen) if (name.startsWith(ATTRIBUTE)) attributes.add(name);
  return [...COLUMNS, ...[...attributes].sort().flatMap((name) => columnOf(name) ?? [])];
}

function Name(props: { run: Run }) {
  const { run } = props;
  return (
    <span class="cell-run">
      <a class="id" href={toRun(run.run_id)}>
        <Mid text={run.key ?? run.run_id} />
      </a>
      {run.title ? (
        <span class="title">
          <bdi class="ell">{run.title}</bdi>
        </span>
      ) : (
        <Tags run={run} />
      )}
    </span>
  );
}

function Why(props: Reason) {
  return (
    <span class="cell-why">
      {props.where && <span class="path">{props.where}</span>}
      <span class="because" title={props.why}>
        {props.why}
      </span>
    </span>
  );
}

function Tags(props: { run: Run }) {
  const tags = Object.entries(props.run.tags).filter(([name]) => name !== "traceparent");
  if (tags.length === 0) return null;
  return (
    <span class="title">
      {tags.map(([name, value]) => (
        <span class="tag" key={name}>
          <bdi>{value ? `${name}=${value}` : name}</bdi>
        </span>
      ))}
    </span>
  );
}
