// Start a run of one workflow: a form from the type of its input, or the input as JSON.

import { useState } from "preact/hooks";
import { offer, perform, type Values } from "../acts";
import { start, type Workflow } from "../acts/others";
import { Problem } from "../api";
import { fieldsOf, filledIn, initialOf, type InputField, valuesIn } from "../forms";
import { words } from "../words";
import { Command } from "./copy";
import { FormField } from "./field";
import { Icon } from "./icon";
import { ProblemBox } from "./problem";
import { TypedField } from "./typed-field";

const said = words.form;

/** What was typed stays while the page is read again: it begins anew only for another version. */
export function StartForm(props: { workflow: Workflow }) {
  return <Inside key={`${props.workflow.name}@${props.workflow.version}`} workflow={props.workflow} />;
}

function Inside(props: { workflow: Workflow }) {
  const { workflow } = props;
  const fields = fieldsOf(workflow.input) ?? [];
  const [isJson, setJson] = useState(fields.length === 0);
  const [values, setValues] = useState<Values>(() => initialOf(fields));
  const [text, setText] = useState(() => JSON.stringify(workflow.sample ?? null, null, 2));
  const [key, setKey] = useState("");
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const takesInput = workflow.takes_input !== false;
  const filled = filledIn(fields, values);
  const input = !takesInput ? "null" : isJson ? text : JSON.stringify(filled.value, null, 2);
  const one = offer(start, [workflow]);
  const turn = (toJson: boolean) => {
    setProblem(undefined);
    if (toJson) {
      setText(JSON.stringify(filled.value, null, 2));
      setJson(true);
      return;
    }
    const found = valuesIn(fields, text);
    if (!found) setProblem(new Problem({ status: 422, title: said.noForm, fix: said.noFormFix }));
    else {
      setValues(found);
      setJson(false);
    }
  };
  const submit = async () => {
    setProblem(undefined);
    const wrong = isJson || !takesInput ? {} : filled.errors;
    setErrors(wrong);
    const [first] = Object.keys(wrong);
    if (first !== undefined) {
      document.getElementById(idOf(fields, first))?.focus();
      return;
    }
    setBusy(true);
    try {
      await perform(one, { input, key, workflow: workflow.name });
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem({ status: -1, title: String(error) }));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="box start-form"
      aria-label={said.start}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) void submit();
      }}
    >
      <div class="pad form">
        <div class="row">
          <h2>{said.start}</h2>
          {takesInput && fields.length > 0 && (
            <span class="seg end">
              <button type="button" aria-pressed={!isJson} onClick={() => isJson && turn(false)}>
                {said.form}
              </button>
              <button type="button" aria-pressed={isJson} onClick={() => !isJson && turn(true)}>
                JSON
              </button>
            </span>
          )}
        </div>
        {problem && <ProblemBox problem={problem} />}
        {!takesInput && <p class="dim">{said.noInput}</p>}
        {takesInput && isJson && (
          <FormField
            id="start-input"
            field={{ name: "input", label: words.otherActs.input, kind: "json", help: workflow.input ? words.otherActs.inputHelp : words.otherActs.inputUnknown }}
            values={{ input: text }}
            onChange={(_, value) => setText(String(value))}
          />
        )}
        {takesInput &&
          !isJson &&
          fields.map((field) => (
            <TypedField
              key={field.name}
              field={field}
              id={idOf(fields, field.name)}
              value={values[field.name] ?? field.initial}
              error={errors[field.name]}
              onChange={(value) => {
                setValues((before) => ({ ...before, [field.name]: value }));
                setErrors(({ [field.name]: _, ...others }) => others);
              }}
            />
          ))}
        <FormField
          id="start-key"
          field={{ name: "key", label: words.otherActs.key, kind: "text", help: words.otherActs.keyHelp }}
          values={{ key }}
          onChange={(_, value) => setKey(String(value))}
        />
        <div class="acts">
          <button type="submit" class={`btn primary ${isBusy ? "busy" : ""}`} aria-busy={isBusy}>
            {isBusy && <Icon name="s-retrying" />}
            {said.startRun}
          </button>
        </div>
        <Command text={start.command([workflow], { input, key })} />
      </div>
    </form>
  );
}

function idOf(fields: InputField[], name: string): string {
  return `start-field-${fields.findIndex((field) => field.name === name)}`;
}
