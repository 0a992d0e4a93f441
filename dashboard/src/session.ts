// Who looks at the dashboard, and what this person may do.

import { computed, signal } from "@preact/signals";
import { isSignedOut, type Permission, Problem, read, send, type Session } from "./api";
import { forget } from "./live";
import { written } from "./place";

/** The caller of the API; undefined until it is known. */
export const session = signal<Session | undefined>(undefined);
/** Why it is not known, if the server does not answer. */
export const sessionProblem = signal<Problem | undefined>(undefined);

/** Whether people sign in with a token here. */
export const signsInHere = (): boolean => written("door") === "token";

/** Whether the person may do what needs this permission. */
export function may(permission: Permission): boolean {
  return session.value?.permissions.includes(permission) ?? false;
}

export const isReadOnly = computed(() => session.value !== undefined && !may("steer"));

/** Ask the server who we are. */
export async function meet(): Promise<void> {
  try {
    session.value = await read("/api/session");
    sessionProblem.value = undefined;
    isSignedOut.value = false;
  } catch (error) {
    sessionProblem.value = error instanceof Problem ? error : undefined;
  }
}

/** Sign in with a token. Raises `Problem`. */
export async function signIn(token: string): Promise<void> {
  const before = session.peek();
  const found = await send("post", "/api/session", { body: { token } });
  session.value = found;
  sessionProblem.value = undefined;
  isSignedOut.value = false;
  if (before?.name !== found.name || before.role !== found.role) forget();
}

/** Sign out, here and on every server. */
export async function signOut(): Promise<void> {
  await send("delete", "/api/session");
  session.value = undefined;
  isSignedOut.value = true;
}
