// Signing in with a token: as a page of its own, and as a dialog above a page whose session has ended.

import { useState } from "preact/hooks";
import { Problem } from "../api";
import { written } from "../place";
import { signIn, signsInHere } from "../session";
import { words } from "../words";
import { Command } from "./copy";
import { Dialog, DialogHead } from "./dialog";
import { Brand, Environment } from "./frame";
import { ProblemBox } from "./problem";

export function SignInForm(props: { onDone?: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      await signIn(token);
      props.onDone?.();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem({ status: -1, title: String(error) }));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      {problem && <ProblemBox problem={problem} />}
      <div class="field">
        <label for="token">{words.signIn.token}</label>
        <input
          class="input mono"
          id="token"
          type="password"
          autocomplete="current-password"
          autofocus
          required
          aria-describedby="token-help"
          aria-invalid={problem ? "true" : undefined}
          placeholder="swt_…"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p class="help" id="token-help">
          {words.signIn.help}
        </p>
      </div>
      <button type="submit" class={`btn primary large ${isBusy ? "busy" : ""}`} disabled={isBusy} aria-busy={isBusy}>
        {words.signIn.in}
      </button>
    </form>
  );
}

/** The page before everything else. */
export function SignInPage() {
  return (
    <main class="plain sign" id="main">
      <p class="from">
        <Brand />
        <Environment />
      </p>
      <h1>{words.signIn.title}</h1>
      {signsInHere() ? (
        <>
          <p>{words.signIn.where(location.host)}</p>
          <SignInForm />
          <div class="fine">
            <p>{words.signIn.noToken}</p>
            <Command isBox text="stepwell token new NAME --role operator --expires 90d" />
          </div>
        </>
      ) : (
        <p>{written("door") === "open" ? words.signIn.onlyHere : words.signIn.elsewhere}</p>
      )}
    </main>
  );
}

/** The session has ended while a page was open: the page and everything typed in it stay below. */
export function SignInAgain() {
  return (
    <Dialog class="narrow-dialog" label={words.signIn.again} onClose={() => undefined} isHeld>
      <DialogHead title={words.signIn.again} text={words.signIn.kept} />
      <div class="dialog-1">{signsInHere() ? <SignInForm /> : <p>{words.signIn.elsewhere}</p>}</div>
    </Dialog>
  );
}
