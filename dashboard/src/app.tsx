// The application: who looks at it decides what there is; then the frame, and in it the page of the address.

import { LocationProvider, Route, Router, useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";
import { pageOffers } from "./acts";
import { isSignedOut } from "./api";
import { said } from "./head";
import NotFound from "./pages/not-found";
import { ActDialog } from "./parts/acts";
import { Frame } from "./parts/frame";
import { Overlays } from "./parts/palette";
import { Boundary, ProblemBox } from "./parts/problem";
import { SignInAgain, SignInPage } from "./parts/sign-in";
import { Sprite } from "./parts/sprite";
import { Toasts } from "./parts/toasts";
import { below, root } from "./place";
import { pages } from "./routes";
import { meet, session, sessionProblem } from "./session";

/** Ask for the code of the page of this address while it is still found out who looks at it. */
export function fetchPage(): void {
  const here = below(location.pathname).replace(/\/$/, "").split("/");
  const fits = (path: string) => {
    const parts = path.split("/");
    return parts.length === here.length && parts.every((part, place) => part.startsWith(":") || part === here[place]);
  };
  const page = pages.find((one) => fits(one.path))?.page as { preload?: () => Promise<unknown> } | undefined;
  // Without it, the page itself says what is wrong.
  page?.preload?.().catch(() => undefined);
}

export function App() {
  return (
    <>
      <Sprite />
      <Inside />
      <Toasts />
    </>
  );
}

function Inside() {
  const problem = sessionProblem.value;
  if (session.value)
    return (
      <LocationProvider scope={root.pathname}>
        <Shell />
        {isSignedOut.value && <SignInAgain />}
      </LocationProvider>
    );
  if (isSignedOut.value) return <SignInPage />;
  if (problem)
    return (
      <main class="plain" id="main">
        <ProblemBox problem={problem} again={() => void meet()} />
      </main>
    );
  return null;
}

function Shell() {
  const { path } = useLocation();
  useEffect(() => {
    pageOffers.value = [];
  }, [path]);
  return (
    <>
      <Frame>
        <Boundary name={path}>
          <Router onRouteChange={arrived}>
            {[
              ...pages.map((one) => <Route key={one.path} path={root.pathname + one.path} component={one.page} />),
              <Route key="default" default component={NotFound} />,
            ]}
          </Router>
        </Boundary>
      </Frame>
      <ActDialog />
      <Overlays />
    </>
  );
}

/** After another page has been opened, the focus is at its head, and screen readers hear its title. */
function arrived(): void {
  requestAnimationFrame(() => {
    const head = document.querySelector<HTMLElement>("main h1");
    if (head && !document.querySelector("dialog[open]")) {
      head.tabIndex = -1;
      head.focus({ preventScroll: true });
    }
    said.value = document.title;
  });
}
