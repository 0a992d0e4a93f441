// What a newcomer sees: nothing has run yet, and how to start the first run.

import { offer } from "../acts";
import { start, startable } from "../acts/others";
import { read } from "../api";
import { useReading } from "../live";
import { mayDo } from "../acts";
import { words } from "../words";
import { ActBar } from "./acts";
import { Command } from "./copy";
import { Empty } from "./states";

export function FirstRun() {
  const known = useReading("workflows", (signal) => read("/api/workflows", { signal }), 5_000).data.value;
  const workflows = startable(known?.workflows);
  const first = workflows[0];
  if (!known) return null;
  if (!first) return <Empty title={words.first.noWorkflow} text={words.first.noWorkflowText} command="stepwell dev app.py" />;
  const one = offer(start, workflows);
  return (
    <div class="start">
      <section class="box">
        <div class="pad form">
          <div>
            <h2>{words.first.title}</h2>
            <p class="sub">
              <code>{first.name}</code>
              {first.summary && <>: {first.summary}</>}
            </p>
          </div>
          {mayDo(one) ? <ActBar offers={[one]} isBelow /> : <p>{words.acts.readOnly}</p>}
        </div>
      </section>
      <section>
        <h2>{words.first.then}</h2>
        <ol class="try">
          {words.first.steps.map(([title, text]) => (
            <li key={title}>
              <div>
                <b class="strong">{title}</b> <span class="two">{text}</span>
              </div>
            </li>
          ))}
          <li>
            <div>
              <b class="strong">{words.first.test}</b> <span class="two">{words.first.testText}</span>
              <Command text="pytest" />
            </div>
          </li>
        </ol>
      </section>
    </div>
  );
}
