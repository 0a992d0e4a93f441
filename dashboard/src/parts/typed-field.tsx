// A field of a form that was made from a type.

import type { InputField } from "../forms";
import { words } from "../words";
import { Icon } from "./icon";

const said = words.form;

export function TypedField(props: {
  field: InputField;
  id: string;
  value: string | boolean;
  error: string | undefined;
  onChange: (value: string | boolean) => void;
}) {
  const { field, id, value, error } = props;
  const about = [error && `${id}-error`, field.help && `${id}-help`].filter(Boolean).join(" ") || undefined;
  const given = { id, "aria-describedby": about, "aria-invalid": error ? ("true" as const) : undefined };
  const typed = (event: { currentTarget: { value: string } }) => props.onChange(event.currentTarget.value);
  const label = (
    <>
      <bdi>{field.name}</bdi> {field.type && <span class="type">{field.type}</span>}{" "}
      {!field.isRequired && field.kind !== "check" && <span class="req">{words.optional}</span>}
    </>
  );
  return (
    <div class="field">
      {field.kind === "check" ? (
        <label class="choice">
          <input type="checkbox" {...given} checked={value === true} onChange={(event) => props.onChange(event.currentTarget.checked)} />
          <span>{label}</span>
        </label>
      ) : (
        <label for={id}>{label}</label>
      )}
      {field.kind === "choice" && (
        <select class="input" {...given} value={String(value)} onChange={typed}>
          {field.options.map((option) => (
            <option key={option} value={option}>
              {shown(option)}
            </option>
          ))}
        </select>
      )}
      {field.kind === "json" && <textarea class="input mono" {...given} value={String(value)} spellcheck={false} onInput={typed} />}
      {["text", "whole", "number"].includes(field.kind) && (
        <input
          class="input"
          {...given}
          value={String(value)}
          inputMode={field.kind === "text" ? undefined : field.kind === "whole" ? "numeric" : "decimal"}
          autocomplete="off"
          spellcheck={false}
          onInput={typed}
        />
      )}
      {error && (
        <p class="error" id={`${id}-error`}>
          <Icon name="s-failed" />
          {error}
        </p>
      )}
      {field.help && (
        <p class="help" id={`${id}-help`}>
          {field.help}
        </p>
      )}
    </div>
  );
}

function shown(option: string): string {
  const value = JSON.parse(option) as unknown;
  return value === null ? said.nothing : typeof value === "string" ? value : option;
}
