// Buttons for acts, each with its command, and the dialog of an act that asks first.

import { useEffect, useState } from "preact/hooks";
import {
  type Act,
  asking,
  begin,
  changedValues,
  commandOf,
  initialValues,
  mayDo,
  type Offer,
  type Outlook,
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
const TYPED_MS = 300;
const ASIDE_MAX = 24;

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
  isQuiet?: boolean;
  isSmall?: boolean;
  onPoint?: () => void;
  onLeave?: () => void;
}) {
  const { act } = props.offer;
  const isBusy = underWay.value === act.name;
  return (
    <button
      type="button"
      class={`btn ${props.isPrimary ? "primary" : ""} ${props.isQuiet ? "quiet" : ""} ${act.isDangerous ? "danger" : ""} ${props.isSmall ? "sm" : ""} ${isBusy ? "busy" : ""}`}
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
  const [plan, setPlan] = useState<Repair | Outlook | undefined>(undefined);
  const [planProblem, setPlanProblem] = useState<Problem | undefined>(undefined);
  const isBusy = underWay.value === act.name;
  const change = (name: string, value: string | boolean) => {
    setValues((before) => changedValues(props.offer, before, name, value));
    if (!act.isPlanLive) setPlan(undefined);
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
    if (!act.plan || !act.isPlanLive) return undefined;
    let isLatest = true;
    const timer = setTimeout(async () => {
      try {
        const found = await act.plan?.(target, values);
        if (!isLatest) return;
        setPlan(found);
        setPlanProblem(undefined);
      } catch (error) {
        if (!isLatest || !(error instanceof Problem)) return;
        setPlan(undefined);
        setPlanProblem(error);
      }
    }, TYPED_MS);
    return () => {
      isLatest = false;
      clearTimeout(timer);
    };
  }, [values]);
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
        {act.plan && <Plan act={act} plan={plan} problem={planProblem} />}
      </div>
      <footer>
        <Command text={act.command(target, values)} />
        <div class="acts">
          {props.onLeave && (
            <button type="button" class="btn quiet" onClick={props.onLeave}>
              {words.leave}
            </button>
          )}
          {act.plan && !act.isPlanLive && (
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
            {act.confirm ?? plainLabel(act)}
          </button>
        </div>
      </footer>
    </form>
  );
}

/** What an act would do. It is computed from the record; nothing has run. */
function Plan(props: { act: Act<unknown>; plan: Repair | Outlook | undefined; problem: Problem | undefined }) {
  const { plan, problem } = props;
  const said = props.act.planWords ?? words.plan;
  return (
    <div aria-live="polite">
      <div class="bar">
        <h3>{said.title}</h3>
        {plan && <span class="dim end">{said.dry}</span>}
      </div>
      {problem && <ProblemBox problem={problem} />}
      {!plan && !problem && <p class="dim">{said.before}</p>}
      {plan?.warnings?.map((warning) => (
        <div class="callout t-warn gap-t" key={warning}>
          <Icon name="s-warning" />
          <div>{warning}</div>
        </div>
      ))}
      {plan && ("groups" in plan ? <Groups outlook={plan} /> : <RepairPlan plan={plan} />)}
    </div>
  );
}

function Groups(props: { outlook: Outlook }) {
  return (
    <>
      {props.outlook.groups.map((group) => (
        <section key={group.title}>
          <h4 class="plan-group">{group.title}</h4>
          {group.lines.length === 0 && group.none && <p class="dim gap-t">{group.none}</p>}
          <ul class="plan">
            {group.lines.map((line, place) => (
              <li key={`${place} ${line.text}`}>
                <Icon name={line.icon} />
                <span class="ell">
                  <bdi>{line.text}</bdi>
                </span>
                {line.note && <span class={line.note.length > ASIDE_MAX ? "why-so" : "dim small"}>{line.note}</span>}
              </li>
            ))}
            {group.more !== undefined && group.more > 0 && <li class="dim">{words.plan.more(group.more)}</li>}
          </ul>
        </section>
      ))}
    </>
  );
}

function RepairPlan(props: { plan: Repair }) {
  const { plan } = props;
  const said = words.plan;
  return (
    <>
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
    </>
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
