import { cleanup, fireEvent, render, screen } from "@testing-library/preact";
import { afterEach, describe, expect, it } from "vitest";
import { figuresIn } from "../figures";
import { actsOf } from "../pages/audit";
import { exampleOf } from "../schemas";
import { framesOf } from "./failure";
import { Json } from "./json";

afterEach(cleanup);

describe("a stored value", () => {
  it("is text, whatever it holds", () => {
    render(<Json label="value" value={{ "<b>": "<img src=x onerror=alert(1)>", n: -1.5e3, ok: true, none: null }} />);

    expect(document.querySelector("img")).toBeNull();
    expect(document.querySelector("pre")?.textContent).toContain('"<img src=x onerror=alert(1)>"');
    expect([...document.querySelectorAll(".d")].map((one) => one.textContent)).toEqual(["-1500", "true", "null"]);
  });

  it("is cut if it is long, and hidden from those who may not see it", () => {
    const page = render(<Json label="value" value={"x".repeat(10_000)} />);
    expect(document.querySelector("pre")?.textContent?.length).toBeLessThan(4_100);
    fireEvent.click(screen.getByText(/Show all/));
    expect(document.querySelector("pre")?.textContent?.length).toBe(10_002);
    page.unmount();

    render(<Json label="value" value={{ hidden: true }} />);
    expect(document.body.textContent).toContain("You may not see this value");
  });
});

it("a trace has the own lines first", () => {
  const trace = [
    "Traceback (most recent call last):",
    '  File "/srv/venv/lib/python3.12/site-packages/acme/client.py", line 212, in _raise',
    "    raise CardDeclined(body)",
    "    ^^^^^^^^^^^^^^^^^^^^^^^^",
    '  File "/srv/shop/app.py", line 31, in charge_card',
    "    return gateway.charge(order)",
    "CardDeclined: no funds",
  ].join("\n");

  expect(framesOf(trace)).toEqual([
    { place: "acme/client.py:212", name: "_raise", source: "raise CardDeclined(body)", isOwn: false },
    { place: "shop/app.py:31", name: "charge_card", source: "return gateway.charge(order)", isOwn: true },
  ]);
});

it("figures are read from the text of the metrics", () => {
  const text = 'stepwell_runs{status="waiting"} 208\nstepwell_runs{status="paused"} 0\nstepwell_ready_runs 12\nstepwell_ready_oldest_seconds 1.5\nstepwell_workers_alive 3\nother 7';

  expect(figuresIn(text)).toEqual({ runs: { waiting: 208, paused: 0 }, ready: 12, oldestSeconds: 1.5, workers: 3 });
});

it("two lines of the audit are one act, also if the answer is missing", () => {
  const line = (number: number, request_id: string, outcome: string) => ({
    number, request_id, outcome, at: "", who: "", act: "", target: "", before: "", after: "", chain: "",
  });
  const acts = actsOf([line(4, "b", "asked"), line(3, "a", "200"), line(2, "a", "asked"), line(1, "hook", "200")]);

  expect(acts.map((act) => [act.asked?.number, act.answered?.number])).toEqual([[4, undefined], [2, 3], [undefined, 1]]);
});

it("an example is made from the schema of an input", () => {
  const schema = {
    $ref: "#/$defs/Order",
    $defs: {
      Order: {
        type: "object",
        properties: { customer: { type: "string" }, amount: { type: "integer" }, lines: { type: "array" }, size: { $ref: "#/$defs/Size" }, note: { anyOf: [{ type: "null" }, { type: "string" }] }, again: { $ref: "#/$defs/Order" }, kind: { type: "string", default: "gift" } },
      },
      Size: { enum: ["s", "m"] },
    },
  };

  expect(exampleOf(schema)).toMatchObject({ customer: "", amount: 0, lines: [], size: "s", note: "", kind: "gift" });
  expect(exampleOf(null)).toBeNull();
});
