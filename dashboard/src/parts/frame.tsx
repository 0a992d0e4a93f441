// The frame of every page: sidebar, top bar, and what lies above the page.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso";
import { useEffect, useState } from "preact/hooks";
import { duration } from "../formats";
import { crumbs, said } from "../head";
import { connectionAt } from "../live";
import { below, to, written } from "../place";
import { type Page, pages } from "../routes";
import { may, session, signOut } from "../session";
import { live, theme, themes, zone } from "../settings";
import { zoneName } from "../formats";
import { words } from "../words";
import { Icon, IconButton } from "./icon";
import { Menu } from "./menu";
import { isPaletteOpen, isSheetOpen } from "./palette";
import { toastProblem } from "./toasts";

const isMenuOpen = signal(false);

export function Frame(props: { children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        {words.frame.skip}
      </a>
      <div class={`frame ${isMenuOpen.value ? "menu-open" : ""}`}>
        <Sidebar />
        <div>
          <TopBar />
          <main id="main" class="page" tabIndex={-1}>
            {props.children}
          </main>
        </div>
      </div>
      <p class="vh" role="status">
        {said.value}
      </p>
    </>
  );
}

function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

export function Environment() {
  const name = written("environment");
  if (!name) return null;
  const tone = /^prod/i.test(name) ? "env-prod" : /^dev/i.test(name) ? "env-dev" : "env-other";
  return <span class={`env ${tone}`}>{name.toUpperCase()}</span>;
}

export function Brand() {
  return (
    <>
      <Icon name="brand" />
      <span class="brand-name">{words.product}</span>
    </>
  );
}

function isHere(page: Page, path: string): boolean {
  const here = below(path).replace(/\/$/, "");
  return page.path === "" ? here === "" : here === page.path || here.startsWith(`${page.path}/`);
}

function Sidebar() {
  const { path } = useLocation();
  const shown = pages.filter((page) => page.nav && (!page.permission || may(page.permission)));
  const groups = [...new Set(shown.map((page) => page.nav?.group))];
  const close = () => (isMenuOpen.value = false);
  return (
    <nav class="side" aria-label={words.frame.main}>
      <div>
        <div class="brand">
          <a href={to("")} onClick={close}>
            <Brand />
          </a>
          <Environment />
          <IconButton class="close" icon="x" label={words.frame.closeMenu} onClick={close} />
        </div>
        {groups.map((group) => (
          <div class="nav" key={group}>
            {shown
              .filter((page) => page.nav?.group === group)
              .map((page) => (
                <a key={page.path} href={to(page.path)} aria-current={isHere(page, path) ? "page" : undefined} onClick={close}>
                  {page.nav && <Icon name={page.nav.icon} />}
                  <span class="nav-name">{page.nav?.label}</span>
                </a>
              ))}
          </div>
        ))}
        <footer>
          {words.product} {session.value?.version}
        </footer>
      </div>
    </nav>
  );
}

function TopBar() {
  const way = crumbs.value;
  return (
    <header class="top">
      <IconButton class="menu-button" icon="menu" label={words.frame.menu} onClick={() => (isMenuOpen.value = true)} />
      <Environment />
      <nav aria-label={words.frame.where} class="crumbs">
        <ol class="crumbs">
          {way.map((crumb, number) => (
            <li key={`${number} ${crumb.text}`}>
              {crumb.href && number < way.length - 1 ? (
                <a href={crumb.href}>
                  <bdi>{crumb.text}</bdi>
                </a>
              ) : (
                <span aria-current="page" class={crumb.isCode ? "mono" : ""}>
                  <bdi>{crumb.text}</bdi>
                </span>
              )}
            </li>
          ))}
        </ol>
      </nav>
      <button type="button" class="search" aria-label={words.frame.search} onClick={() => (isPaletteOpen.value = true)}>
        <Icon name="search" />
        <span>{words.frame.searchHint}</span>
        <kbd>/</kbd>
      </button>
      <LiveMark />
      <button
        type="button"
        class="btn quiet wide"
        aria-label={words.frame.zone(zoneName())}
        title={words.frame.zone(zoneName())}
        onClick={() => (zone.value = zone.value === "utc" ? "local" : "utc")}
      >
        {zoneName()}
      </button>
      <ThemeMenu />
      <IconButton class="wide" icon="help" label={words.frame.help} onClick={() => (isSheetOpen.value = true)} />
      <PersonMenu />
    </header>
  );
}

/** Whether the page follows the server, and how old its data is. A button: it pauses and continues. */
function LiveMark() {
  const [moment, setMoment] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setMoment(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const { state, age } = connectionAt(Math.max(moment, Date.now()));
  const old = duration(Math.floor(age / 1_000) * 1_000).replace(/\.\d+/, "");
  const text = { live: words.live.live, stale: words.live.stale(old), paused: words.live.paused }[state];
  const label = live.value === "on" ? words.live.pause : words.live.goOn;
  return (
    <button
      type="button"
      class={`btn quiet live ${state === "live" ? "" : state}`}
      aria-label={`${text}. ${label}`}
      title={label}
      onClick={() => (live.value = live.value === "on" ? "off" : "on")}
    >
      {text}
    </button>
  );
}

function ThemeMenu() {
  return (
    <Menu class="wide" label={words.frame.theme} button={<Icon name="sun" />}>
      {themes.map((one) => (
        <label key={one}>
          <input type="radio" name="theme" checked={theme.value === one} onChange={() => (theme.value = one)} />
          {words.themes[one]}
        </label>
      ))}
    </Menu>
  );
}

/** The first letters of the first and the last word of a name. */
function initialsOf(name: string): string {
  const parts = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const letters = [parts[0], parts.length > 1 ? parts.at(-1) : ""].map((part) => [...(part ?? "")][0] ?? "");
  return letters.join("").toUpperCase() || "?";
}

function PersonMenu() {
  const who = session.value;
  if (!who) return null;
  const initials = initialsOf(who.name);
  return (
    <Menu class="wide" label={words.frame.person(initials, who.name)} button={<span class="avatar">{initials}</span>}>
      <p class="sheet-head">
        <b class="strong">
          <bdi>{who.name}</bdi>
        </b>
        <span class="dim">{words.roles[who.role]}</span>
      </p>
      {who.ends_at && (
        <button type="button" onClick={() => void signOut().catch((error: unknown) => toastProblem(words.signIn.notOut, error))}>
          {words.signIn.out}
        </button>
      )}
    </Menu>
  );
}
