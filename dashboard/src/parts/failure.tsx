// A recorded error: what it is, the own lines of its trace first, and what caused it.

import { useState } from "preact/hooks";
import type { Failure } from "../api";
import { words } from "../words";
import { CopyButton } from "./copy";
import { isHidden } from "./json";
import { Icon } from "./icon";

interface Frame {
  place: string;
  name: string;
  source: string;
  isOwn: boolean;
}

const FRAME = /^ {2}File "([^"]+)", line (\d+), in (.+)$/;
const LIBRARY = /(?:^|[\\/])(?:site-packages|dist-packages|lib[\\/]python[\d.]+|stepwell)[\\/]|^</;

/** The frames of a Python traceback, the last call last. */
export function framesOf(trace: string): Frame[] {
  const frames: Frame[] = [];
  for (const line of trace.split("\n")) {
    const found = FRAME.exec(line);
    const last = frames.at(-1);
    if (found) {
      const [, path = "", number, name = ""] = found;
      const short = path.split(/[\\/]/).slice(-2).join("/");
      frames.push({ place: `${short}:${number}`, name, source: "", isOwn: !LIBRARY.test(path) });
    } else if (last && line.startsWith("    ") && !last.source && !/^\s*[\^~]+\s*$/.test(line)) last.source = line.trim();
  }
  return frames;
}

export function FailureBox(props: { failure: Failure }) {
  const { failure } = props;
  const [isWhole, setWhole] = useState(false);
  const trace = typeof failure.trace === "string" ? failure.trace : "";
  const text = [`${failure.type}: ${failure.message}`, trace].filter(Boolean).join("\n");
  const causes = Object.entries(failure.causes);
  return (
    <div class="err">
      <div class="what">
        <b>{failure.type}</b> {failure.code && <code class="code-no">{failure.code}</code>}
        <p class={isWhole ? "" : "clip"}>{failure.message}</p>
        {failure.recorded && (
          <dl class="kv small gap-t">
            <dt>{words.failure.recorded}</dt>
            <dd class="mono">{failure.recorded}</dd>
            <dt>{words.failure.now}</dt>
            <dd class="mono">{failure.now}</dd>
          </dl>
        )}
      </div>
      {isHidden(failure.trace) && <p class="none pad-x">{words.failure.hidden}</p>}
      {trace && <Trace trace={trace} isWhole={isWhole} />}
      {causes.map(([name, cause]) => (
        <div class="cause" key={name}>
          <p class="dim small">{words.failure.causedBy(name)}</p>
          <FailureBox failure={cause} />
        </div>
      ))}
      <div class="cut">
        {!isWhole && (trace || failure.message.length > 300) && (
          <button type="button" class="btn quiet sm" onClick={() => setWhole(true)}>
            {words.failure.showAll}
          </button>
        )}
        <span class="end">
          <CopyButton text={text} label={words.failure.copy}>
            {words.copy}
          </CopyButton>
        </span>
      </div>
    </div>
  );
}

function Trace(props: { trace: string; isWhole: boolean }) {
  if (props.isWhole) return <pre class="trace whole">{props.trace}</pre>;
  const frames = framesOf(props.trace);
  const own = frames.filter((frame) => frame.isOwn);
  const others = frames.length - own.length;
  return (
    <ul class="trace">
      {own.map((frame, number) => (
        <li class="mine" key={number}>
          <span class="at">
            {frame.place} <b>{frame.name}</b>
          </span>
          {frame.source && <span class="src">{frame.source}</span>}
        </li>
      ))}
      {others > 0 && (
        <li class="lib">
          <Icon name="more" /> {words.failure.library(others)}
        </li>
      )}
    </ul>
  );
}
