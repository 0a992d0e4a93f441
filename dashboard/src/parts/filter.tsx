// The filter box: one line of the filter language, with a chip for each part. It is the same text as on the command line.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Problem, Run } from "../api";
import { useKeys } from "../keys";
import { filterWord } from "../place";
import { words } from "../words";
import { Icon } from "./icon";

export interface Term {
  text: string;
  isNegated: boolean;
  /** With its colon; empty for a plain word. */
  field: string;
  value: string;
}

/** The parts of a filter. Blanks inside quotes part nothing. Whether a part is valid is decided by the server. */
export function termsOf(filter: string): Term[] {
  const texts = filter.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];
  return texts.map((text) => {
    const found = /^(-?)([A-Za-z_][\w.-]*:)?(.*)$/s.exec(text);
    return { text, isNegated: found?.[1] === "-", field: found?.[2] ?? "", value: found?.[3] ?? text };
  });
}

export interface Suggestion {
  text: string;
  about: string;
}

/** The fields of the filter language that a page of runs offers, and what they find. */
const FIELDS: Suggestion[] = Object.entries(words.filterFields).map(([text, about]) => ({ text: `${text}:`, about }));
const STATUSES = [
  "pending", "running", "waiting", "paused", "cancelling", "compensating", "rollback_incomplete", "completed",
  "failed", "compensated", "cancelled", "continued", "active", "ended",
];

/** What could come next: fields, or the values of a field. */
export function suggest(typed: string, workflows: string[], seen: Record<string, string[]> = {}): Suggestion[] {
  const { isNegated, field, value } = termsOf(typed)[0] ?? { isNegated: false, field: "", value: "" };
  const minus = isNegated ? "-" : "";
  const last = value.split(",").at(-1) ?? "";
  const before = value.slice(0, value.length - last.length);
  const among = (values: string[]) =>
    values
      .filter((one) => one.toLowerCase().startsWith(last.toLowerCase()) && one !== last)
      .map((one) => ({ text: `${minus}${field}${before}${one}`, about: "" }));
  if (field === "status:") return among(STATUSES);
  if (field === "workflow:") return among([...new Set([...workflows, ...(seen[field] ?? [])])]).slice(0, 8);
  if (field === "waiting:") return among(["signal", "topic", "timer", "child", "retry"]);
  if (field === "sort:") return among(["-created", "-started", "-ended", "-took", ...Object.keys(seen).filter((one) => one.startsWith("attr.")).map((one) => `-${one.slice(0, -1)}`)]);
  if (field) return among(seen[field] ?? []).slice(0, 8);
  const attributes = Object.keys(seen).filter((one) => one.startsWith("attr."));
  const fields = [...FIELDS, ...attributes.map((text) => ({ text, about: words.filter.attribute }))];
  return fields.filter((one) => one.text.startsWith(value) && value !== "").map((one) => ({ ...one, text: minus + one.text }));
}

/** Texts of runs that were seen lately, by the field that finds them. */
export function seenIn(runs: Run[]): Record<string, string[]> {
  const found: Record<string, Set<string>> = {};
  const see = (field: string, value: string | null | undefined) => {
    if (value) (found[field] ??= new Set()).add(filterWord(value));
  };
  for (const run of runs) {
    see("workflow:", run.workflow);
    see("version:", String(run.version));
    see("key:", run.key);
    see("id:", run.run_id);
    see("started_by:", run.started_by);
    see("error:", run.failure?.type);
    see("at:", run.failure?.path);
    see("title:", run.title);
    for (const [name, value] of Object.entries(run.tags)) see("tag:", value ? `${name}=${value}` : name);
    for (const [name, value] of Object.entries(run.attributes)) see(`attr.${name}:`, String(value));
  }
  return Object.fromEntries(Object.entries(found).map(([field, values]) => [field, [...values]]));
}

export function FilterBox(props: {
  filter: string;
  onChange: (filter: string) => void;
  workflows: string[];
  /** Runs whose texts are suggested. */
  seen?: Run[];
  problem: Problem | undefined;
  count: ComponentChildren;
}) {
  const terms = termsOf(props.filter);
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(-1);
  const [isOpen, setOpen] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useKeys({ f: () => input.current?.focus() });
  useEffect(() => setChosen(-1), [typed]);
  const seen = useMemo(() => seenIn(props.seen ?? []), [props.seen]);
  const found = isOpen ? suggest(typed, props.workflows, seen) : [];
  const set = (texts: string[]) => props.onChange(texts.filter(Boolean).join(" "));
  const add = (text: string) => {
    if (text.endsWith(":")) {
      setTyped(text);
      return;
    }
    setTyped("");
    set([...terms.map((term) => term.text), text.trim()]);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      const taken = found[chosen]?.text ?? typed;
      if (taken.trim()) add(taken);
    } else if (event.key === "Backspace" && typed === "" && terms.length > 0) {
      event.preventDefault();
      setTyped(terms.at(-1)?.text ?? "");
      set(terms.slice(0, -1).map((term) => term.text));
    } else if (event.key === "Escape" && (found.length > 0 || typed)) {
      event.preventDefault();
      if (found.length > 0) setOpen(false);
      else setTyped("");
    } else if (event.key === "Escape") input.current?.blur();
    else if (event.key === "ArrowDown" && found.length > 0) {
      event.preventDefault();
      setChosen((chosen + 1) % found.length);
    } else if (event.key === "ArrowUp" && found.length > 0) {
      event.preventDefault();
      setChosen((chosen <= 0 ? found.length : chosen) - 1);
    }
  };
  const corrected = props.problem && correctedFilter(props.problem, props.filter);
  return (
    <div>
      <div class="filter" role="search">
        <Icon name="search" />
        {terms.map((term, number) => (
          <span class={`chip ${term.isNegated ? "not" : ""} ${isWrongTerm(props.problem, props.filter, number) ? "wrong" : ""}`} key={`${number} ${term.text}`}>
            <span class="k">{term.field}</span>
            <span class="v">
              <bdi>{term.value}</bdi>
            </span>
            <button
              type="button"
              aria-label={words.filter.remove(term.text)}
              onClick={() => {
                set(terms.filter((_, other) => other !== number).map((one) => one.text));
                input.current?.focus();
              }}
            >
              <Icon name="x" />
            </button>
          </span>
        ))}
        <input
          ref={input}
          value={typed}
          aria-label={words.filter.add}
          placeholder={terms.length === 0 ? words.filter.example : words.filter.more}
          autocomplete="off"
          spellcheck={false}
          role="combobox"
          aria-expanded={found.length > 0}
          aria-controls="filter-suggestions"
          aria-activedescendant={chosen >= 0 && found[chosen] ? `filter-suggestion-${chosen}` : undefined}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            setOpen(true);
          }}
          onKeyDown={pressed}
          onBlur={() => setOpen(false)}
        />
        <span class="count">{props.count}</span>
        <ul class="suggest" id="filter-suggestions" role="listbox" aria-label={words.filter.suggestions} hidden={found.length === 0}>
          {found.map((one, number) => (
            <li
              key={one.text}
              id={`filter-suggestion-${number}`}
              role="option"
              aria-selected={number === chosen}
              onMouseDown={(event) => {
                event.preventDefault();
                add(one.text);
              }}
            >
              <code>{one.text}</code>
              <span>{one.about}</span>
            </li>
          ))}
        </ul>
      </div>
      {props.problem && (
        <p class="error filter-error" role="alert">
          <Icon name="s-failed" />
          <span>
            {props.problem.title} <span class="dim">{props.problem.fix}</span>
            {corrected && (
              <>
                {" "}
                <button type="button" class="btn sm" onClick={() => props.onChange(corrected)}>
                  {words.filter.correct} <code class="ell">{corrected}</code>
                </button>
              </>
            )}
          </span>
        </p>
      )}
    </div>
  );
}

/** The filter with the word that the server proposes, in the part that it points at. */
export function correctedFilter(problem: Problem, filter: string): string | undefined {
  const word = /did you mean "?([\w.-]+:?)"?\??/i.exec(problem.fix)?.[1];
  if (word === undefined) return undefined;
  const terms = termsOf(filter);
  const wrong = terms.findIndex((_, number) => isWrongTerm(problem, filter, number));
  const term = terms[wrong];
  if (!term) return undefined;
  const isField = /no field/.test(problem.title);
  const fixed = isField ? `${term.isNegated ? "-" : ""}${word.replace(/:$/, "")}:${term.value}` : `${term.isNegated ? "-" : ""}${term.field}${word}`;
  return terms.map((one, number) => (number === wrong ? fixed : one.text)).join(" ");
}

/** Whether the server points at this part: it names the place in the filter by the number of its character. */
function isWrongTerm(problem: Problem | undefined, filter: string, number: number): boolean {
  const found = /^character (\d+) of the filter/.exec(problem?.where ?? "");
  if (!found) return false;
  const before = [...filter].slice(0, Number(found[1])).join("");
  return termsOf(before).length === number + 1;
}
