// Errors: what happened, why, and what to do about it.

import { Component, type ComponentChildren } from "preact";
import { Problem } from "../api";
import { words } from "../words";
import { Icon } from "./icon";

/** An error of the API, with its code, cause and fix. */
export function ProblemBox(props: { problem: Problem; again?: () => void }) {
  const { problem } = props;
  return (
    <div class="callout t-bad problem" role="alert">
      <Icon name="s-failed" />
      <div>
        <p>
          <b class="strong">{problem.title || words.problem.unknown}</b>
          {problem.code && <code class="code-no"> {problem.code}</code>}
        </p>
        {problem.violations.length > 0 && (
          <ul class="bullets">
            {problem.violations.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        )}
        <dl class="kv small">
          <Part name={words.problem.where} text={problem.where} />
          <Part name={words.problem.why} text={problem.why} />
          <Part name={words.problem.fix} text={problem.fix} />
          {problem.status >= 500 && <Part name={words.problem.request} text={problem.requestId} />}
        </dl>
        {props.again && (
          <div class="acts gap-t">
            <button type="button" class="btn sm" onClick={props.again}>
              {words.again}
            </button>
          </div>
        )}
      </div>
    </div>
  );
}

function Part(props: { name: string; text: string }) {
  if (!props.text) return null;
  return (
    <>
      <dt>{props.name}</dt>
      <dd>{props.text}</dd>
    </>
  );
}

/** Shows what went wrong in the part of the page inside it; the frame stays. */
export class Boundary extends Component<{ name: string; children: ComponentChildren }, { error: Error | undefined }> {
  override state: { error: Error | undefined } = { error: undefined };

  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidUpdate(before: { name: string }) {
    if (before.name !== this.props.name && this.state.error) this.setState({ error: undefined });
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div class="page-problem">
        <h1>{words.problem.page}</h1>
        <ProblemBox
          problem={
            error instanceof Problem
              ? error
              : new Problem({ status: -1, code: "SW999", title: words.problem.bug, why: String(error), fix: words.problem.bugFix })
          }
          again={() => this.setState({ error: undefined })}
        />
      </div>
    );
  }
}
