import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/preact";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { asking, offer } from "../acts";
import { runActs, type RunTarget } from "../acts/runs";
import { isSignedOut, type Session } from "../api";
import { aRun } from "../run/samples.test-data";
import { session } from "../session";
import { ActBar, ActDialog } from "./acts";
import { Toasts } from "./toasts";

const OPERATOR: Session = { name: "ann", role: "operator", permissions: ["read", "steer"], sees_payloads: true, ends_at: null, version: "1" };
const waiting: RunTarget = { run: aRun({ status: "waiting", ended_at: null }), awaited: ["approve"], path: "decision" };
const offers = [offer(runActs.signal, waiting), offer(runActs.cancel, waiting)];

function answer(status: number, body: unknown): void {
  vi.stubGlobal("fetch", vi.fn(async () => new Response(JSON.stringify(body), { status, headers: { "content-type": "application/problem+json" } })));
}

beforeAll(() => {
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
});
beforeEach(() => {
  session.value = OPERATOR;
});
afterEach(() => {
  cleanup();
  asking.value = undefined;
  isSignedOut.value = false;
  vi.unstubAllGlobals();
});

describe("acts", () => {
  it("show the command of the first, and of the one that has the focus", () => {
    render(<ActBar offers={offers} />);
    const command = () => document.querySelector(".cmd code")?.textContent;

    expect(command()).toBe("stepwell signal r-1 approve");
    fireEvent.focus(screen.getByText("Cancel…"));
    expect(command()).toBe("stepwell cancel r-1");
  });

  it("are not there for those who may only look", () => {
    session.value = { ...OPERATOR, role: "viewer", permissions: ["read"] };
    render(<ActBar offers={offers} />);

    expect(screen.queryAllByRole("button")).toEqual([]);
    expect(document.body.textContent).toContain("You may look, but not act");
  });
});

describe("the dialog of an act", () => {
  it("keeps what was typed when the session ends, and sends nothing by itself", async () => {
    answer(401, { title: "this needs a token", status: 401, code: "SW800" });
    render(<ActDialog />);
    asking.value = offers[1];
    const reason = (await screen.findByLabelText(/Reason/)) as HTMLTextAreaElement;
    fireEvent.input(reason, { target: { value: "the customer withdrew" } });
    expect(document.querySelector("dialog .cmd code")?.textContent).toBe("stepwell cancel --reason 'the customer withdrew' r-1");
    fireEvent.submit(document.querySelector("form") as HTMLFormElement);
    await waitFor(() => expect(isSignedOut.value).toBe(true));

    answer(200, { run_id: "r-1", status: "cancelled", changed: true });
    isSignedOut.value = false;
    await waitFor(() => expect(document.querySelector("[role=alert]")).toBeNull());
    expect(reason.value).toBe("the customer withdrew");
    expect(fetch).not.toHaveBeenCalled();
  });

  it("says what is wrong with a value before it is sent, and what the server refused", async () => {
    answer(409, { title: "run r-1 is completed", status: 409, code: "SW404", fix: "stepwell why r-1" });
    render(
      <>
        <ActDialog />
        <Toasts />
      </>,
    );
    asking.value = offers[0];
    const payload = await screen.findByLabelText(/Payload/);
    const submit = () => fireEvent.submit(document.querySelector("form") as HTMLFormElement);
    fireEvent.input(payload, { target: { value: "yes" } });
    submit();
    await screen.findByText("Payload is not JSON");
    expect(fetch).not.toHaveBeenCalled();

    fireEvent.input(payload, { target: { value: '"yes"' } });
    submit();
    await screen.findByText("run r-1 is completed");
    expect(document.body.textContent).toContain("SW404");
  });
});
