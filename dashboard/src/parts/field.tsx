// Form fields: label above, help or error below, and what was typed stays.

import { useState } from "preact/hooks";
import type { Field, Values } from "../acts";
import { type Asked, askedIn, askedOf, initialOf, textOf } from "../forms";
import { zoneName } from "../formats";
import { words } from "../words";
import { Icon } from "./icon";
import { TypedField } from "./typed-field";

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
  const asked = field.kind === "json" ? askedOf(field.schema) : null;
  if (asked)
    return (
      <TypedValue
        key={JSON.stringify(field.schema)}
        field={field}
        asked={asked}
        id={id}
        text={String(value ?? "")}
        onChange={(text) => props.onChange(field.name, text)}
      />
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

/** A value with a type: a form, or JSON for those who prefer it. What is passed on is JSON; nothing, while a field is wrong. */
function TypedValue(props: { field: Field; asked: Asked; id: string; text: string; onChange: (text: string) => void }) {
  const { asked, id, field } = props;
  const [values, setValues] = useState<Values | null>(() => askedIn(asked, props.text) ?? initialOf(asked.fields));
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [isLost, setLost] = useState(false);
  const said = words.form;
  const turn = (toJson: boolean) => {
    const found = toJson ? null : askedIn(asked, props.text);
    setLost(!toJson && !found);
    if (toJson || found) setValues(found);
    setErrors({});
  };
  const change = (name: string, value: string | boolean) => {
    const next = { ...values, [name]: value };
    const found = textOf(asked, next);
    setValues(next);
    setErrors(found.errors);
    props.onChange(found.text);
  };
  return (
    <fieldset class="typed">
      <legend class="legend row">
        {field.label}
        <span class="seg end">
          <button type="button" aria-pressed={values !== null} onClick={() => values === null && turn(false)}>
            {said.form}
          </button>
          <button type="button" aria-pressed={values === null} onClick={() => values !== null && turn(true)}>
            JSON
          </button>
        </span>
      </legend>
      {values === null ? (
        <div class="field">
          <textarea
            class="input mono"
            id={id}
            aria-label={field.label}
            value={props.text}
            spellcheck={false}
            onInput={(event) => props.onChange(event.currentTarget.value)}
          />
          {isLost && (
            <p class="error" role="alert">
              <Icon name="s-failed" />
              {said.noForm}
            </p>
          )}
        </div>
      ) : (
        asked.fields.map((one, place) => (
          <TypedField
            key={one.name}
            field={asked.isOne ? { ...one, name: field.label } : one}
            id={place === 0 ? id : `${id}-${place}`}
            value={values[one.name] ?? one.initial}
            error={errors[one.name]}
            onChange={(value) => change(one.name, value)}
          />
        ))
      )}
      {field.help && <p class="help">{field.help}</p>}
    </fieldset>
  );
}
