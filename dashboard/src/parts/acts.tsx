// Buttons for acts, each with its command, and the dialog of an act that asks first.

import { useEffect, useState } from "preact/hooks";
import {
  asking,
  begin,
  changedValues,
  commandOf,
  initialValues,
  mayDo,
  type Offer,
  perform,
  plainLabel,
  underWay,
  type Values,
} from "../acts";
import { isSignedOut, Problem, type Repair } from "../api";
import { number } from "../formats";
import { words } from "../words";
import { Command } from "./copy";
import { Dialog, DialogHead } from "./dialog";
import { FormField } from "./field";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { ProblemBox } from "./problem";
import type { IconName } from "./sprite";

const SHOWN_MAX = 3;

/** The acts that are offered, and the command of the one that is pointed at or focused: at rest, of the first. */
export function ActBar(props: { offers: Offer[]; isBelow?: boolean; hasPrimary?: boolean }) {
  const offers = props.offers.filter(mayDo);
  const [pointed, setPointed] = useState(0);
  if (offers.length === 0)
    return props.offers.length > 0 ? <p class="dim small">{words.acts.readOnly}</p> : null;
  const shown = offers[Math.min(pointed, offers.length - 1)] ?? offers[0];
  const plain = offers.filter((one) => !one.act.isDangerous);
  const dangerous = offers.filter((one) => one.act.isDangerous);
  const button = (one: Offer) => (
    <ActButton
      key={one.act.name}
      offer={one}
      isPrimary={(props.hasPrimary ?? true) && one === plain[0]}
      onPoint={() => setPointed(offers.indexOf(one))}
      onLeave={() => setPointed(0)}
    />
  );
  return (
    <div class={`acts-with-commands ${props.isBelow ? "below" : ""}`}>
      <div class="acts">
        {plain.slice(0, SHOWN_MAX).map(button)}
        {plain.length > SHOWN_MAX && <More offers={plain.slice(SHOWN_MAX)} />}
        {dangerous.length > 0 && plain.length > 0 && <span class="sep" aria-hidden="true" />}
        {dangerous.map(button)}
      </div>
      <div class="cmds">{shown && <Command text={commandOf(shown)} />}</div>
    </div>
  );
}

/** What is offered less often. */
function More(props: { offers: Offer[] }) {
  return (
    <Menu
      class="more"
      summary="btn quiet"
      label={words.acts.more}
      button={
        <>
          {words.acts.more}
          <Icon name="down" />
        </>
      }
    >
      {props.offers.map((one) => (
        <button type="button" key={one.act.name} onClick={() => void begin(one)}>
          {one.act.label}
          <span class="cmdline">{commandOf(one)}</span>
        </button>
      ))}
    </Menu>
  );
}

export function ActButton(props: {
  offer: Offer;
  isPrimary?: boolean;
  isSmall?: boolean;
  onPoint?: () => void;
  onLeave?: () => void;
}) {
  const { act } = props.offer;
  const isBusy = underWay.value === act.name;
  return (
    <button
      type="button"
      class={`btn ${props.isPrimary ? "primary" : ""} ${act.isDangerous ? "danger" : ""} ${props.isSmall ? "sm" : ""} ${isBusy ? "busy" : ""}`}
      aria-busy={isBusy}
      onClick={() => !isBusy && void begin(props.offer)}
      onMouseEnter={props.onPoint}
      onFocus={props.onPoint}
      onMouseLeave={props.onLeave}
      onBlur={props.onLeave}
    >
      {isBusy && <Icon name="s-retrying" />}
      {act.label}
    </button>
  );
}

/** The dialog of the act that is being asked about. It is in the frame, so that reading the page again leaves it alone. */
export function ActDialog() {
  const one = asking.value;
  return one ? <AskDialog key={one.act.name} offer={one} /> : null;
}

function AskDialog(props: { offer: Offer }) {
  const { act } = props.offer;
  const close = () => (asking.value = undefined);
  return (
    <Dialog label={act.title ?? plainLabel(act)} onClose={close} class={act.plan ? "wide" : "narrow-dialog"}>
      <DialogHead title={act.title ?? plainLabel(act)} text={act.about} onClose={close} />
      <ActForm offer={props.offer} onDone={close} onLeave={close} />
    </Dialog>
  );
}

/** The form of an act: its fields, what it would do, its command, and the button that does it. */
export function ActForm(props: { offer: Offer; label?: string; onDone: () => void; onLeave?: () => void }) {
  const { act, target } = props.offer;
  const [values, setValues] = useState<Values>(() => initialValues(props.offer));
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [plan, setPlan] = useState<Repair | undefined>(undefined);
  const isBusy = underWay.value === act.name;
  const change = (name: string, value: string | boolean) => {
    setValues((before) => changedValues(props.offer, before, name, value));
    setPlan(undefined);
  };
  const attempt = async (work: () => Promise<void>) => {
    setProblem(undefined);
    try {
      await work();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem({ status: -1, title: String(error) }));
    }
  };
  const dryRun = () => attempt(async () => setPlan(await act.plan?.(target, values)));
  const submit = () =>
    attempt(async () => {
      await perform(props.offer, values);
      props.onDone();
    });
  useEffect(() => {
    // After signing in again nothing is sent by itself: another person may have signed in.
    if (problem?.status === 401 && !isSignedOut.value) setProblem(undefined);
  }, [isSignedOut.value]);
  const prefix = props.onLeave ? "act" : "here";
  return (
    <form
      aria-label={props.label}
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) void submit();
      }}
    >
      <div class={act.plan ? "dialog-2" : props.onLeave ? "dialog-1" : ""}>
        <div class="form">
          {problem && <ProblemBox problem={problem} />}
          {act.fields?.(target, values).map((field) => (
            <FormField key={field.name} id={`${prefix}-${field.name}`} field={field} values={values} onChange={change} />
          ))}
        </div>
        {act.plan && <Plan plan={plan} />}
      </div>
      <footer>
        <Command text={act.command(target, values)} />
        <div class="acts">
          {props.onLeave && (
            <button type="button" class="btn quiet" onClick={props.onLeave}>
              {words.leave}
            </button>
          )}
          {act.plan && (
            <button type="button" class="btn" onClick={() => void dryRun()}>
              {words.acts.dryRun}
            </button>
          )}
          <button
            type="submit"
            class={`btn ${act.isDangerous ? "danger solid" : "primary"} ${isBusy ? "busy" : ""}`}
            aria-busy={isBusy}
            disabled={isBusy}
          >
            {plainLabel(act)}
          </button>
        </div>
      </footer>
    </form>
  );
}

/** What a repair would do. It is computed from the record; nothing has run. */
function Plan(props: { plan: Repair | undefined }) {
  const { plan } = props;
  const said = words.plan;
  if (!plan)
    return (
      <div>
        <h3>{said.title}</h3>
        <p class="dim gap-t">{said.before}</p>
      </div>
    );
  return (
    <div aria-live="polite">
      <div class="bar">
        <h3>{said.title}</h3>
        <span class="dim end">{said.dry}</span>
      </div>
      {plan.warnings.map((warning) => (
        <div class="callout t-warn gap-t" key={warning}>
          <Icon name="s-warning" />
          <div>{warning}</div>
        </div>
      ))}
      <PlanGroup title={said.dropped} paths={plan.dropped} count={plan.dropped_count} icon="s-retrying" />
      <PlanGroup title={said.following} paths={plan.following} icon="s-running" />
      <PlanGroup title={said.waits} paths={plan.waits} icon="s-waiting" />
      <PlanGroup title={said.retried} paths={plan.retried} icon="s-retrying" />
      <PlanGroup title={said.supplied} paths={plan.supplied} icon="s-completed" />
      <PlanGroup title={said.undone} paths={plan.undone} icon="s-undone" />
      <PlanGroup title={said.notUndone} paths={plan.not_undone} icon="s-warning" />
      <PlanGroup title={said.cancelled} paths={plan.cancelled} icon="s-cancelled" />
      <PlanGroup title={said.left} paths={plan.left} icon="s-skipped" />
      <PlanGroup title={said.kept} paths={plan.kept} count={plan.kept_count} icon="s-completed" />
      {plan.new_version !== null && <p class="gap-t">{said.version(plan.version, plan.new_version)}</p>}
    </div>
  );
}

const PATHS_MAX = 12;

/** A list may have only some of the paths; `count` is how many they are. */
function PlanGroup(props: { title: string; paths: string[]; count?: number; icon: IconName }) {
  if (props.paths.length === 0) return null;
  const count = props.count ?? props.paths.length;
  return (
    <>
      <h4 class="plan-group">
        {props.title} <span class="n">{number(count)}</span>
      </h4>
      <ul class="plan">
        {props.paths.slice(0, PATHS_MAX).map((path) => (
          <li key={path}>
            <Icon name={props.icon} />
            <code class="ell">{path}</code>
          </li>
        ))}
        {count > PATHS_MAX && <li class="dim">{words.plan.more(count - PATHS_MAX)}</li>}
      </ul>
    </>
  );
}
