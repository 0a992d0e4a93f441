// Form fields: label above, help or error below, and what was typed stays.

import type { Field, Values } from "../acts";
import { zoneName } from "../formats";
import { words } from "../words";
import { Icon } from "./icon";

export function FormField(props: {
  field: Field;
  id: string;
  values: Values;
  error?: string | undefined;
  onChange: (name: string, value: string | boolean) => void;
}) {
  const { field, id } = props;
  const value = props.values[field.name];
  const about = [props.error && `${id}-error`, field.help && `${id}-help`].filter(Boolean).join(" ") || undefined;
  const given = {
    id,
    name: field.name,
    "aria-describedby": about,
    "aria-invalid": props.error ? ("true" as const) : undefined,
    required: field.isRequired,
  };
  const typed = (event: { currentTarget: { value: string } }) => props.onChange(field.name, event.currentTarget.value);
  const notes = (
    <>
      {props.error && (
        <p class="error" id={`${id}-error`}>
          <Icon name="s-failed" />
          {props.error}
        </p>
      )}
      {field.help && (
        <p class="help" id={`${id}-help`}>
          {field.help}
        </p>
      )}
    </>
  );
  const half = field.isHalf ? "half" : "";
  if (field.kind === "check")
    return (
      <div class={`field ${half}`}>
        <label class="choice">
          <input
            type="checkbox"
            {...given}
            checked={value === true}
            onChange={(event) => props.onChange(field.name, event.currentTarget.checked)}
          />
          <span>{field.label}</span>
        </label>
        {notes}
      </div>
    );
  if (field.kind === "choice")
    return (
      <fieldset class={`field ${half}`} aria-describedby={about}>
        <legend class="legend">{field.label}</legend>
        {field.options?.map((option) => (
          <label class="choice" key={option.value}>
            <input
              type="radio"
              name={field.name}
              value={option.value}
              checked={value === option.value}
              onChange={() => props.onChange(field.name, option.value)}
            />
            <span>
              {option.label}
              {option.help && <span class="why-not">{option.help}</span>}
            </span>
          </label>
        ))}
        {notes}
      </fieldset>
    );
  return (
    <div class={`field ${half}`}>
      <label for={id}>
        {field.label} {!field.isRequired && !["json", "select"].includes(field.kind) && <span class="req">{words.optional}</span>}
        {field.kind === "json" && <span class="type">JSON</span>}
        {field.kind === "moment" && <span class="type">{zoneName()}</span>}
      </label>
      {field.kind === "select" ? (
        <select class="input" {...given} value={String(value ?? "")} onChange={typed}>
          {field.options?.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      ) : field.kind === "moment" ? (
        <input class="input" type="datetime-local" {...given} value={String(value ?? "")} onInput={typed} />
      ) : field.kind === "text" ? (
        <input class="input" {...given} value={String(value ?? "")} autocomplete="off" spellcheck={false} onInput={typed} />
      ) : (
        <textarea
          class={`input ${field.kind === "json" ? "mono" : ""}`}
          {...given}
          value={String(value ?? "")}
          spellcheck={field.kind === "area"}
          onInput={typed}
        />
      )}
      {notes}
    </div>
  );
}
